public import CanopyTree

extension WireError {
  /// What an error of the tree is on the wire.
  public init(_ error: TreeError) {
    switch error {
    case .invalidKey, .invalidPath: self.init(.invalidPath, error.sentence)
    case .invalidData, .invalidJSON: self.init(.invalidData, error.sentence)
    case .invalidQuery: self.init(.invalidQuery, error.sentence)
    case .tooLarge: self.init(.tooLarge, error.sentence)
    }
  }
}
