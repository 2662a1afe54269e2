public import Foundation

/// The folder of this repository, for tests that read its files.
public enum Checkout {
  /// The top level of the repository.
  public static let root = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  /// The folder of the conformance data: the value of the environment variable `CANOPY_CONFORMANCE`, or a folder
  /// beside the repository. The data are not part of the repository.
  public static let conformance: URL = {
    if let path = ProcessInfo.processInfo.environment["CANOPY_CONFORMANCE"] {
      return URL(filePath: path)
    }
    return root.appending(path: "../shared/conformance").standardized
  }()
}
