import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyRealtime

/// A conversation for each action of the protocol.
@Suite(.timeLimit(.minutes(20))) struct ConversationTests {
  @Test(arguments: Depth.allCases)
  func `a ping is answered, and a sign of life is not`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      try await client.send("0")
      try await client.send(#"{"t":"c","d":{"t":"p","d":{}}}"#)
      try await client.expect(#"{"t":"c","d":{"t":"o","d":{}}}"#)
      try await client.send(bytes: ClientFrame.bytes(0x89, Array("hi".utf8)))
      try await client.expect("(pong hi)")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a listener gets the data, then the answer, then each change`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      try await server.write("a", #"{"b":1,"c":{".value":2,".priority":3}}"#)
      let client = try await server.connect()
      try await client.send(1, "q", #"{"p":"/a","h":""}"#)
      try await client.expect(push: "a", #"{"b":1,"c":{".value":2,".priority":3}}"#)
      try await client.expect(answer: 1, "ok", "{}")
      try await server.write("a/b", "5")
      try await client.expect(push: "a/b", "5")
      try await server.write("a/c/.priority", "4")
      try await client.expect(push: "a/c/.priority", "4")
      try await server.write("other", "1")
      try await server.write("", #"{"a":7}"#)
      try await client.expect(push: "a", "7")
      try await server.write("a", "null")
      try await client.expect(push: "a", "null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a listener whose hash matches gets no data`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      try await server.write("a", #"{"b":1,"big":"\#(String(repeating: "x", count: 5000))"}"#)
      try await server.write("s", "1")
      let client = try await server.connect()
      // The location is empty, and so is the client's copy.
      try await client.request(1, "q", #"{"p":"/none","h":""}"#)
      let root = server.parts.engine.root
      // The large one is hashed beside the event loop.
      for (number, path) in [(2, "s"), (3, "a")] {
        let hash = root.at(try Path(path)).hash
        try await client.request(number, "q", #"{"p":"/\#(path)","h":"\#(hash)"}"#)
      }
      try await server.write("s", "2")
      try await client.expect(push: "s", "2")
      try await server.write("none", "3")
      try await client.expect(push: "none", "3")
      try await client.request(4, "n", #"{"p":"/s"}"#)
      try await client.send(5, "q", #"{"p":"/s","h":"stale"}"#)
      try await client.expect(push: "s", "2")
      try await client.expect(answer: 5, "ok", "{}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a query has its window, and its messages have the tag`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      try await server.write("a", #"{"x":1,"y":2,"z":3}"#)
      let client = try await server.connect()
      let query = #"{"l":2,"vf":"r","i":".key"}"#
      try await client.send(1, "q", #"{"p":"/a","q":\#(query),"t":9,"h":""}"#)
      try await client.expect(push: "a", #"{"y":2,"z":3}"#, tag: 9)
      try await client.expect(answer: 1, "ok", "{}")
      try await server.write("a/x", "5")
      try await server.write("a/z", "4")
      try await client.expect(push: "a/z", "4", tag: 9)
      try await server.write("a/zz", "6")
      // One commit is one message.
      try await client.expect(push: "a", #"{"y":null,"zz":6}"#, tag: 9, isMerge: true)
      // Another client has the same query under another tag.
      let other = try await server.connect()
      try await other.send(1, "q", #"{"p":"/a","q":\#(query),"t":1,"h":""}"#)
      try await other.expect(push: "a", #"{"z":4,"zz":6}"#, tag: 1)
      try await other.expect(answer: 1, "ok", "{}")
      try await server.write("a/z", "7")
      try await client.expect(push: "a/z", "7", tag: 9)
      try await other.expect(push: "a/z", "7", tag: 1)
      try await client.request(2, "n", #"{"p":"/a","q":\#(query),"t":9}"#)
      try await server.write("a/z", "8")
      try await client.request(3, "s", "{}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a query without an index gets the whole location and a warning`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      try await server.write("a", #"{"x":{"n":1},"y":{"n":2}}"#)
      try await server.write("scores", #"{"x":{"score":1},"y":{"score":2}}"#)
      let client = try await server.connect()
      try await client.send(1, "q", #"{"p":"/a","q":{"l":1,"vf":"l","i":"n"},"t":1,"h":""}"#)
      try await client.expect(push: "a", #"{"x":{"n":1},"y":{"n":2}}"#, tag: 1)
      try await client.expect(answer: 1, "ok", #"{"w":["no_index"]}"#)
      try await server.write("a/y/n", "3")
      try await client.expect(push: "a/y/n", "3", tag: 1)
      try await client.send(
        2, "q", #"{"p":"/scores","q":{"l":1,"vf":"l","i":"score"},"t":2,"h":""}"#)
      try await client.expect(push: "scores", #"{"x":{"score":1}}"#, tag: 2)
      try await client.expect(answer: 2, "ok", "{}")
      // A read does not go through everything.
      try await client.send(3, "g", #"{"p":"/a","q":{"l":1,"vf":"l","i":"n"}}"#)
      try await client.expect(answer: 3, status: "invalid_parameters")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a client that stops listening gets nothing more`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      try await client.request(1, "q", #"{"p":"/a","h":""}"#)
      try await client.request(2, "n", #"{"p":"a"}"#)
      try await client.request(3, "n", #"{"p":"a"}"#)
      try await server.write("a", "1")
      try await client.request(4, "s", "{}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a second request to listen replaces the first`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      for number in 1...3 { try await client.request(number, "q", #"{"p":"/a","h":""}"#) }
      try await server.write("a", "1")
      try await client.expect(push: "a", "1")
      try await client.request(4, "n", #"{"p":"/a"}"#)
      try await server.write("a", "2")
      try await client.request(5, "s", "{}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a value is read once, with priorities and in the window of a query`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      try await server.write("a", #"{"0":1,"1":{".value":2,".priority":3},"2":4}"#)
      let client = try await server.connect()
      try await client.send(1, "g", #"{"p":"/a","q":{}}"#)
      try await client.expect(
        answer: 1, "ok", #"{"0":1,"1":{".value":2,".priority":3},"2":4}"#)
      try await client.send(2, "g", #"{"p":"/a","q":{"l":2,"vf":"l","i":".key"}}"#)
      try await client.expect(answer: 2, "ok", #"{"0":1,"1":{".value":2,".priority":3}}"#)
      try await client.send(3, "g", #"{"p":"/none","q":{}}"#)
      try await client.expect(answer: 3, "ok", "null")
      try await client.send(
        4, "g", #"{"p":"/a","q":{"sp":2,"i":".value"}}"#)
      try await client.expect(answer: 4, status: "invalid_parameters")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the effect of a write comes before its answer`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      try await client.request(1, "q", #"{"p":"/a","h":""}"#)
      try await client.send(2, "p", #"{"p":"/a/b","d":{".sv":"timestamp"}}"#)
      try await client.expect(push: "a/b", "\(server.parts.clock.now)")
      try await client.expect(answer: 2)
      try await client.send(3, "m", #"{"p":"/a","d":{"c":1,"d/e":2}}"#)
      try await client.expect(push: "a", #"{"c":1,"d/e":2}"#, isMerge: true)
      try await client.expect(answer: 3)
      try await client.send(4, "p", #"{"p":"/a","d":null}"#)
      try await client.expect(push: "a", "null")
      try await client.expect(answer: 4)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write that is sent again changes nothing and is acknowledged`(
    _ depth: Depth
  ) async throws {
    try await withRealtime(depth) { server in
      let witness = try await server.connect()
      try await witness.request(1, "q", #"{"p":"/a","h":""}"#)
      var client = try await server.connect()
      try await client.request(1, "p", #"{"p":"/a/b","d":[1,2]}"#)
      try await client.request(2, "m", #"{"p":"/a","d":{"c":1}}"#)
      try await witness.expect(push: "a/b", #"{"0":1,"1":2}"#)
      try await witness.expect(push: "a/c", "1")
      await client.disconnect()
      client = try await server.connect()
      try await client.request(3, "p", #"{"p":"/a/b","d":[1,2]}"#)
      try await client.request(4, "m", #"{"p":"/a","d":{"c":1}}"#)
      try await witness.request(2, "s", "{}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a transaction is made only if the value has the hash`(_ depth: Depth) async throws {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      try await client.request(1, "p", #"{"p":"/n","d":1,"h":""}"#)
      // Without a listener the client gets the present value.
      try await client.send(2, "p", #"{"p":"/n","d":1,"h":""}"#)
      try await client.expect(push: "n", "1")
      try await client.expect(answer: 2, status: "datastale")
      let hash = server.parts.engine.root.at(try Path("n")).hash
      try await client.request(3, "p", #"{"p":"/n","d":2,"h":"\#(hash)"}"#)
      #expect(server.parts.engine.root.at(try Path("n")) == 2)
      try await client.send(4, "q", #"{"p":"/","h":"x"}"#)
      try await client.expect(push: "", #"{"n":2}"#)
      try await client.expect(answer: 4, "ok", "{}")
      // With a listener it has that already.
      try await client.request(5, "p", #"{"p":"/n","d":3,"h":"\#(hash)"}"#, status: "datastale")
      try await client.request(
        6, "m", #"{"p":"/","d":{"n":3},"h":"\#(hash)"}"#, status: "datastale")
      let rootHash = server.parts.engine.root.hash
      try await client.send(7, "m", #"{"p":"/","d":{"n":3},"h":"\#(rootHash)"}"#)
      try await client.expect(push: "n", "3")
      try await client.expect(answer: 7)
    }
  }

  @Test(arguments: Depth.allCases)
  func
    `on-disconnect writes are made together when the connection is cut, but for cancelled ones`(
      _ depth: Depth
    ) async throws
  {
    try await withRealtime(depth) { server in
      let witness = try await server.connect()
      try await witness.request(1, "q", #"{"p":"/a","h":""}"#)
      let client = try await server.connect()
      try await client.request(1, "o", #"{"p":"/a/set","d":{".sv":"timestamp"}}"#)
      try await client.request(2, "om", #"{"p":"/a/m","d":{"x":1,"y/z":"\"\n"}}"#)
      try await client.request(3, "o", #"{"p":"/a/never","d":1}"#)
      try await client.request(4, "oc", #"{"p":"/a/never","d":null}"#)
      let kept = server.parts.journal
      #expect(try await kept.disconnectWriteIDs().count == 2)
      await client.disconnect()
      try await witness.expect(
        push: "a", #"{"m/x":1,"m/y/z":"\"\n","set":\#(server.parts.clock.now)}"#, isMerge: true)
      try await witness.request(2, "s", "{}")
    }
  }

  @Test(arguments: Depth.allCases)
  func
    `statistics and tokens of the application are acknowledged, and an unknown action is refused`(
      _ depth: Depth
    ) async throws
  {
    try await withRealtime(depth) { server in
      let client = try await server.connect()
      try await client.send(1, "s", #"{"c":{"sdk.js.9-0-0":1}}"#)
      try await client.expect(answer: 1)
      try await client.request(2, "appcheck", #"{"token":"t"}"#)
      try await client.request(3, "xyz", "{}", status: "invalid_parameters")
      try await client.request(4, "p", #"{"p":"/a.b","d":1}"#, status: "invalid_parameters")
      try await client.request(5, "s", "{}")
    }
  }
}
