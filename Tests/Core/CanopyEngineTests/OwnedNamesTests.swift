import CanopyTesting
import Testing

@testable import CanopyEngine

/// The order in which the names of clients are dropped.
struct OwnedNamesTests {
  /// The same, as a list that is searched each time.
  private struct Model {
    var uses: [(name: String, owner: String?)] = []

    mutating func use(_ name: String, _ owner: String?) {
      uses.removeAll { $0.name == name && $0.owner == owner }
      uses.append((name, owner))
    }

    /// Removes the oldest name of an owner that has the most.
    mutating func remove(_ name: String) -> Bool {
      let counts = Dictionary(uses.map { ($0.owner, 1) }, uniquingKeysWith: +)
      guard let index = uses.firstIndex(where: { $0.name == name }) else { return false }
      let owner = uses[index].owner
      let isOldest = uses.firstIndex { $0.owner == owner } == index
      uses.remove(at: index)
      return isOldest && counts[owner] == counts.values.max()
    }
  }

  @Test func `the oldest name of an owner with the most is dropped, after random uses`() {
    var random = SeededGenerator(printingSeedFor: "OwnedNamesTests")
    for _ in 0..<100 {
      var names = OwnedNames()
      var model = Model()
      for _ in 0..<200 {
        let owner = ["a", "b", "c", nil][Int.random(in: 0..<4, using: &random)]
        let name = "\(owner ?? "-") \(Int.random(in: 0..<9, using: &random))"
        switch Int.random(in: 0..<6, using: &random) {
        case 0:
          let dropped = names.removeSurplus()
          #expect((dropped == nil) == model.uses.isEmpty)
          let isRight = dropped.map { model.remove($0) } ?? true
          #expect(isRight)
        case 1:
          names.remove(name, of: owner)
          model.uses.removeAll { $0.name == name && $0.owner == owner }
        default:
          names.use(name, of: owner)
          model.use(name, owner)
        }
        #expect(names.count == model.uses.count)
      }
    }
  }

  @Test func `of owners with one name each, the name that was used longest ago is dropped`() {
    var names = OwnedNames()
    for index in 0..<10 { names.use("n\(index)", of: "o\(index)") }
    names.use("n0", of: "o0")
    let dropped = (0..<10).map { _ in names.removeSurplus() }
    #expect(dropped == (1..<10).map { "n\($0)" } + ["n0"])
    let last = names.removeSurplus()
    #expect(last == nil && names.count == 0 && names.entryCount == 0)
  }

  @Test func `the memory grows with the names, not with their uses`() {
    var names = OwnedNames()
    for index in 0..<10_000 {
      names.use("n\(index % 10)", of: "o\(index % 3)")
      #expect(names.entryCount < 400)
    }
    // A drop for each new name costs a few steps, however many names there are.
    for index in 0..<10_000 {
      names.use("new\(index)", of: "o")
      let dropped = names.count > 100 ? names.removeSurplus() : ""
      #expect(dropped != nil)
      #expect(names.entryCount < 1_000)
    }
  }
}
