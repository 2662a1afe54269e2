import Foundation
import Testing

@testable import CanopyClient

/// The tests of the original client, `File.test`, whose behaviour a test shows. The article
/// `PortedBehaviours` lists them.
struct Ported: TestTrait {
  let names: [String]
}

extension Trait where Self == Ported {
  /// Names the tests of the original client whose behaviour a test shows.
  static func ported(_ names: String...) -> Ported { Ported(names: names) }
}

/// The calls without a completion. In an async function Swift prefers the forms that wait.
extension DatabaseReference {
  func startSet(_ value: Any?) { setValue(value) }
  func startSet(_ value: Any?, priority: Any?) { setValue(value, andPriority: priority) }
  func startSetPriority(_ priority: Any?) { setPriority(priority) }
  func startUpdate(_ values: [AnyHashable: Any]) { updateChildValues(values) }
  func startTransaction(_ function: @escaping @Sendable (MutableData) -> TransactionResult) {
    runTransactionBlock(function)
  }
  func startOnDisconnectSet(_ value: Any?) { onDisconnectSetValue(value) }
  func startOnDisconnectUpdate(_ values: [AnyHashable: Any]) {
    onDisconnectUpdateChildValues(values)
  }
}
