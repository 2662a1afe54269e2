package import CanopyEngine
internal import CanopyTree
internal import Testing

extension Replica {
  /// Begins to listen to the first engine on a journal, or resumes at a later one, and checks that the copy is right.
  ///
  /// - Parameter run: the number of the engine; 0 for the first.
  package func check(_ run: Int, _ engine: Engine) async throws {
    if run == 0 {
      let id = await start(engine)
      _ = try #require(id)
    } else {
      let resumed = try await resume(engine)
      let (_, isAnew) = try #require(resumed)
      #expect(!isAnew)
    }
    if let found = problem(engine.root) { Issue.record("run \(run): \(found)") }
  }
}
