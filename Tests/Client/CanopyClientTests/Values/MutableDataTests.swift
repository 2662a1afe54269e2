import CanopyTree
import Testing

@testable import CanopyClient

/// Returns the operations on a transaction's data.
@Suite struct MutableDataTests {
  private func written(_ data: MutableData) throws -> WriteValue {
    try #require(TransactionResult.success(withValue: data).outcome.value)
  }

  @Test func `a new priority leaves the data and the priorities below it as they are`() throws {
    let data = MutableData(nil, json(#"{"a":{".value":1,".priority":7},"b":2}"#))
    data.priority = 3
    #expect(
      try written(data).node == json(#"{"a":{".value":1,".priority":7},"b":2,".priority":3}"#))
    data.priority = nil
    #expect(try written(data).node == json(#"{"a":{".value":1,".priority":7},"b":2}"#))
  }

  @Test func `a new priority leaves the server values as they are`() throws {
    let data = MutableData(nil, .absent)
    data.value = ["at": CanopyClient.ServerValue.timestamp()]
    data.priority = 3
    data.childData(byAppendingPath: "other").value = 1
    let value = try written(data)
    let tree = Tree(root: .absent)
    let write = try Write.set(Location(Path("x")), value)
    var after = tree
    after.apply(write.resolved(in: tree.root, at: 17))
    #expect(after.root == json(#"{"x":{"at":17,"other":1,".priority":3}}"#))
  }

  @Test func `the last priority wins, also for server values`() throws {
    let data = MutableData(nil, json("1"))
    data.priority = CanopyClient.ServerValue.timestamp()
    data.priority = 4
    let value = try written(data)
    #expect(value.serverValues.isEmpty)
    #expect(value.node == json(#"{".value":1,".priority":4}"#))
  }

  @Test func `returned data below the location is written`() throws {
    let data = MutableData(nil, json(#"{"a":{"b":1},"c":2}"#))
    let below = data.childData(byAppendingPath: "a")
    below.childData(byAppendingPath: "at").value = CanopyClient.ServerValue.timestamp()
    let value = try written(below)
    #expect(value.node == json(#"{"b":1}"#))
    #expect(value.serverValues.map(\.path) == [try Path("at")])
  }
}
