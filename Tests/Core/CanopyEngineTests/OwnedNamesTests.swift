import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// The order in which the names of clients are dropped.
struct OwnedNamesTests {
  /// The same, as a list that is searched each time.
  private struct Model {
    var uses: [(name: ByteString, owner: ByteString?, weight: Int)] = []

    func weight(_ name: ByteString) -> Int { uses.first { $0.name == name }?.weight ?? 0 }

    mutating func use(_ name: ByteString, _ owner: ByteString?, _ weight: Int) {
      uses.removeAll { $0.name == name && $0.owner == owner }
      uses.append((name, owner, weight))
    }

    /// Removes the oldest name of an owner whose names weigh the most.
    mutating func remove(_ name: ByteString) -> Bool {
      let counts = Dictionary(uses.map { ($0.owner, $0.weight) }, uniquingKeysWith: +)
      guard let index = uses.firstIndex(where: { $0.name == name }) else { return false }
      let owner = uses[index].owner
      let isOldest = uses.firstIndex { $0.owner == owner } == index
      uses.remove(at: index)
      return isOldest && counts[owner] == counts.values.max()
    }
  }

  @Test func `the oldest name of the owner with the most weight is dropped, after random uses`() {
    var random = SeededGenerator(printingSeedFor: "OwnedNamesTests")
    for _ in 0..<100 {
      var names = OwnedNames()
      var model = Model()
      for _ in 0..<200 {
        let owner: ByteString? = ["a", "b", "c", nil][Int.random(in: 0..<4, using: &random)]
        let name: ByteString = "\(owner ?? "-") \(Int.random(in: 0..<9, using: &random))"
        switch Int.random(in: 0..<6, using: &random) {
        case 0:
          let dropped = names.first()
          #expect((dropped == nil) == model.uses.isEmpty)
          if let dropped, let use = model.uses.first(where: { $0.name == dropped }) {
            names.remove(dropped, of: use.owner, weight: use.weight)
            let isRight = model.remove(dropped)
            #expect(isRight)
          }
        case 1:
          names.remove(name, of: owner, weight: model.weight(name))
          model.uses.removeAll { $0.name == name && $0.owner == owner }
        case 2:
          guard let index = model.uses.firstIndex(where: { $0.name == name }) else { continue }
          let change = Int.random(in: 0...3, using: &random)
          // An owner whose names weigh another amount counts as one that has used a name now, as far as names of several
          // owners weigh as much. The model does not say which of those comes first.
          names.changeWeight(of: owner, by: change)
          model.uses[index].weight += change
        default:
          let weight = Int.random(in: 1...4, using: &random)
          names.use(name, of: owner, changing: weight - model.weight(name))
          model.use(name, owner, weight)
        }
        #expect(names.count == model.uses.count)
        #expect(names.weight == model.uses.reduce(0) { $0 + $1.weight })
      }
    }
  }

  @Test func `of owners with one name each, the name that was used longest ago is dropped`() {
    var names = OwnedNames()
    for index in 0..<10 { names.use("n\(index)", of: "o\(index)", changing: 1) }
    names.use("n0", of: "o0", changing: 0)
    for index in Array(1..<10) + [0] {
      let dropped = names.first()
      #expect(dropped == "n\(index)")
      names.remove("n\(index)", of: "o\(index)", weight: 1)
    }
    let last = names.first()
    #expect(last == nil && names.count == 0 && names.entryCount == 0)
  }

  @Test func `the memory grows with the names, not with their uses`() {
    var names = OwnedNames()
    for index in 0..<10_000 {
      names.use("n\(index % 10)", of: "o\(index % 3)", changing: index < 30 ? 1 : 0)
      #expect(names.entryCount < 400)
    }
    // A drop for each new name costs a few steps, however many names there are.
    for index in 0..<10_000 {
      names.use("new\(index)", of: "o", changing: 1)
      if names.count > 100 {
        let dropped = names.first()
        #expect(dropped?.text.hasPrefix("new") == true)
        if let dropped { names.remove(dropped, of: "o", weight: 1) }
      }
      #expect(names.entryCount < 1_000)
    }
  }
}
