public import CanopyEngine
public import CanopyTree

extension Journal {
  /// Loads the state without indexes.
  public func load() async throws -> JournalState {
    try await load(keeping: IndexPlan())
  }

  /// Makes a checkpoint without rests.
  public func checkpoint(_ root: Node, through sequence: Int64) async throws {
    try await checkpoint(root, through: sequence) {}
  }
}
