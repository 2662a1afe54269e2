import Foundation

extension String {
  /// The text in Unicode's composed form (NFC): one spelling for what reads the same.
  ///
  /// The standard library compares by this form but does not hand it out; this file is the only
  /// one that needs Foundation for it.
  var composed: String { precomposedStringWithCanonicalMapping }
}
