import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyGateway

/// Namespaces over HTTP: `ns=NAME`.
@Suite(.timeLimit(.minutes(20))) struct NamespaceTests {
  private static let stream = ["Accept": "text/event-stream"]

  private static func request(_ number: Int, _ action: String, _ body: String) -> String {
    #"{"t":"d","d":{"r":\#(number),"a":"\#(action)","b":\#(body)}}"#
  }

  @Test func `a write, a read and a conditional write concern one namespace alone`() async throws {
    let source = try MemoryNamespaces(["a", "b"])
    try await withGateway(namespaces: source) { server in
      try await server.connect { client in
        let increment = #"{".sv":{"increment":1}}"#
        for (name, count) in [("a", 3), ("b", 2), ("default", 1)] {
          for _ in 0..<count {
            _ = try await client.request("PUT", "/open/n.json?ns=\(name)", [:], increment)
          }
        }
        try await client.expect("GET", "/open/n.json?ns=a", text: "3")
        try await client.expect("GET", "/open/n.json?ns=b", text: "2")
        try await client.expect("GET", "/open/n.json", text: "1")
        // The last of two parameters counts, as elsewhere.
        try await client.expect("GET", "/open/n.json?ns=a&ns=b", text: "2")
        let tagged = try await client.request(
          "GET", "/open/n.json?ns=a", ["X-Firebase-ETag": "true"])
        let tag = try #require(tagged.fields["etag"])
        let stale = try await client.request("PUT", "/open/n.json?ns=b", ["if-match": tag], "9")
        #expect(stale.status == 412 && stale.text == "2", "\(stale)")
        try await client.expect("PUT", "/open/n.json?ns=a", ["if-match": tag], "9", status: 200)
        try await client.expect("DELETE", "/.json?ns=a", status: 200)
        try await client.expect("GET", "/.json?ns=a", text: "null")
        try await client.expect("GET", "/open/n.json?ns=b", text: "2")
      }
      // Each namespace has a journal of its own.
      #expect(server.parts.engine.snapshot.sequence == 1)
    }
  }

  @Test func `messages behind a WebSocket whose namespace is being opened wait, and are charged`()
    async throws
  {
    let source = try MemoryNamespaces(["a"])
    source.gate.hold()
    try await withGateway(namespaces: source) { server in
      let memory = server.parts.operations.memory
      try await server.connect { client in
        try await client.begin(
          "GET", "/.ws?v=5&ns=a",
          [
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
          ])
        await source.gate.reached()
        let text = String(repeating: "x", count: 40_000)
        let put = Self.request(1, "p", #"{"p":"/open/a","d":"\#(text)"}"#)
        try await client.send(message: put)
        let least = GatewayConnection.newBytes + RequestInput.keptBytesMax
        try await eventually { memory.used >= least }
        source.gate.open()
        #expect(try await client.head().status == 101)
        _ = try await client.message()
        #expect(try await client.message().contains(#""r":1,"b":{"s":"ok""#))
      }
      try await eventually { memory.used == 0 }
    }
  }

  @Test func `a write whose connection closes before it begins is not made`() async throws {
    let source = try MemoryNamespaces(["a"])
    source.gate.hold()
    try await withGateway(namespaces: source) { server in
      try await server.connect { client in
        try await client.begin("PUT", "/open/a.json?ns=a", [:], "1")
        try await client.begin("PATCH", "/open.json?ns=a", ["if-match": "null_etag"], #"{"b":1}"#)
        await source.gate.reached()
        server.gate.closeAll()
        _ = try? await client.end()
      }
      try await eventually { server.gate.count == 0 }
      source.gate.open()
      // The work for the connection ends with its charge.
      try await eventually { server.parts.operations.memory.used == 0 }
      try await server.connect { client in
        let response = try await client.request("GET", "/open.json?ns=a")
        #expect(response.text == "null", "\(response)")
      }
    }
  }

  @Test func `rules are replaced in one namespace alone`() async throws {
    let source = try MemoryNamespaces(["a", "b"], initial: .locked)
    try await withGateway(namespaces: source) { server in
      try await server.connect { client in
        try await client.expect("GET", "/x.json?ns=a", status: 401)
        let open = #"{"rules":{".read":true,".write":true}}"#
        let refused = try await client.request("PUT", "/.settings/rules.json?ns=a", [:], open)
        #expect(refused.status == 401, "\(refused)")
        let set = try await client.request(
          "PUT", "/.settings/rules.json?ns=a", server.administrator, open)
        #expect(set.status == 200, "\(set)")
        try await client.expect("PUT", "/x.json?ns=a", [:], "1", status: 200)
        try await client.expect("PUT", "/x.json?ns=b", [:], "1", status: 401)
        try await client.expect("PUT", "/x.json", [:], "1", status: 401)
        let rules = try await client.request(
          "GET", "/.settings/rules.json?ns=b", server.administrator)
        #expect(rules.text.contains(#"".read": false"#), "\(rules)")
        try await client.expect(
          "GET", "/.settings/rules.json", server.administrator, text: openRules)
      }
    }
  }

  @Test func `the places of the server are ordinary ones in another namespace`() async throws {
    let source = try MemoryNamespaces(["a"])
    let open = #"{"rules":{".read":true,".write":true}}"#
    try await withGateway(rules: open, namespaces: source) { server in
      try await server.connect { client in
        for place in ["erasures", "deletions", "renames", "removed-posts"] {
          let put = try await client.request(
            "PUT", "/\(place)/u.json", [:], #"{"stage":"account"}"#)
          #expect(put.status == 401 && put.text.contains("belongs to the server"), "\(put.text)")
          let other = try await client.request(
            "PUT", "/\(place)/u.json?ns=a", [:], #"{"stage":"account"}"#)
          #expect(other.status == 200, "\(other)")
        }
      }
    }
  }

  @Test(arguments: ["PUT", "PATCH", "POST"])
  func `a write whose body is incomplete takes no place of a namespace`(_ method: String)
    async throws
  {
    let source = try MemoryNamespaces(["a", "b"])
    var settings = Namespaces.Settings()
    settings.openMax = 1
    try await withGateway(namespaces: source, namespaceSettings: settings) { server in
      try await server.connect { slow in
        let body = #"{"n":"\#(String(repeating: "x", count: 20_000))"}"#
        try await slow.send(
          "\(method) /open/x.json?ns=a HTTP/1.1\r\nHost: localhost\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\r\n" + body.dropLast())
        try await eventually {
          server.parts.operations.memory.used >= GatewayConnection.baseBytes + 16_000
        }
        let read = try await server.connect { try await $0.request("GET", "/open.json?ns=b") }
        #expect(read.status == 200, "\(read)")
        #expect(source.opened == ["b"])
        try await slow.send("}")
        #expect(try await slow.response().status == 200)
        #expect(source.opened == ["b", "a"] && source.closed == ["b"])
      }
    }
  }

  @Test func `no data of the blog is derived in another namespace, whatever its rules`()
    async throws
  {
    let source = try MemoryNamespaces(["a"])
    try await withGateway(rules: nil, namespaces: source) { server in
      try await server.connect { client in
        let builtIn = try await client.request(
          "GET", "/.settings/rules.json", server.administrator)
        let post =
          #"{"authorId":"u","author":"ada","title":"t","body":"b","createdAt":1,"starCount":0}"#
        for rules in [nil, builtIn.text] {
          if let rules {
            let set = try await client.request(
              "PUT", "/.settings/rules.json?ns=a", server.administrator, rules)
            #expect(set.status == 200, "\(set)")
          }
          let put = try await client.request(
            "PUT", "/posts/p.json?ns=a", server.administrator, post)
          #expect(put.status == 200, "\(put.text)")
          let root = try await client.request(
            "GET", "/.json?ns=a&shallow=true", server.administrator)
          #expect(root.text == #"{"posts":true}"#, "\(root)")
        }
      }
    }
  }

  @Test func `a name that is not one, or of no namespace, is refused for every request`()
    async throws
  {
    let source = try MemoryNamespaces(["a"])
    try await withGateway(namespaces: source) { server in
      for (name, status) in [
        ("..", 400), ("%2e%2e", 400), ("%2e", 400), ("A", 400), ("", 400), ("a%2fb", 400),
        ("%C3%A9", 400),
        ("a%00", 400), ("a.b", 400), (String(repeating: "a", count: 64), 400),
        (String(repeating: "a", count: 63), 404), ("missing", 404),
      ] {
        try await server.connect { client in
          for (method, path, body) in [
            ("GET", "/open/a.json", nil), ("PUT", "/open/a.json", "1"),
            ("DELETE", "/open/a.json", nil),
            ("GET", "/.settings/rules.json", nil),
          ] {
            let response = try await client.request(method, "\(path)?ns=\(name)", [:], body)
            #expect(response.status == status, "\(name) \(method)")
            #expect(response.json?["error"]?.string?.isEmpty == false, "\(response)")
          }
          let stream = try await client.request("GET", "/open/a.json?ns=\(name)", Self.stream)
          #expect(stream.status == status, "\(stream)")
        }
        try await server.connect { client in
          let found = try await client.upgrade("/.ws?v=5&ns=\(name)")
          #expect(found == status)
        }
      }
      #expect(source.opened == [] && server.parts.engine.root.isAbsent)
    }
  }

  @Test(arguments: [false, true])
  func `a WebSocket without listeners leaves the place of its namespace, also with a login`(
    _ hasLogin: Bool
  ) async throws {
    let source = try MemoryNamespaces(["a", "b"])
    var settings = Namespaces.Settings()
    settings.openMax = 1
    try await withGateway(namespaces: source, namespaceSettings: settings) { server in
      try await server.connect { resting in
        let status = try await resting.upgrade("/.ws?v=5&ns=a")
        #expect(status == 101)
        _ = try await resting.message()
        if hasLogin {
          let signUp = try await server.connect {
            try await $0.request(
              "POST", "/identitytoolkit.googleapis.com/v1/accounts:signUp?key=k",
              ["Content-Type": "application/json"], "{}")
          }
          let token = try #require(signUp.json?["idToken"]?.string)
          try await resting.send(message: Self.request(1, "auth", #"{"cred":"\#(token)"}"#))
          #expect(try await resting.message().contains(#""s":"ok""#))
        }
        let read = try await server.connect { try await $0.request("GET", "/open.json?ns=b") }
        #expect(read.text == "null" && source.closed == ["a"])
        let end = try await resting.message()
        #expect(end.contains("the namespace a was closed"))
      }
      // A listener keeps the place.
      try await server.connect { listening in
        let status = try await listening.upgrade("/.ws?v=5&ns=a")
        #expect(status == 101)
        _ = try await listening.message()
        try await listening.send(message: Self.request(1, "q", #"{"p":"/open","h":""}"#))
        _ = try await listening.message()
        let read = try await server.connect { try await $0.request("GET", "/open.json?ns=b") }
        #expect(read.status == 503, "\(read)")
      }
    }
  }

  @Test func `event streams and WebSockets have the events of their namespace alone`() async throws
  {
    let source = try MemoryNamespaces(["a", "b"])
    try await withGateway(namespaces: source) { server in
      try await server.connect { first in
        try await first.begin("GET", "/open.json?ns=a", Self.stream)
        #expect(try await first.head().status == 200)
        #expect(try await first.event() == #"put {"path":"/","data":null}"#)
        try await server.connect { second in
          try await second.begin("GET", "/open.json", Self.stream)
          #expect(try await second.head().status == 200)
          #expect(try await second.event() == #"put {"path":"/","data":null}"#)
          try await server.connect { socket in
            #expect(try await socket.upgrade("/.ws?v=5&ns=b") == 101)
            _ = try await socket.message()
            try await socket.send(message: Self.request(1, "q", #"{"p":"/open","h":""}"#))
            // The hash is that of no data, so no data is sent.
            #expect(try await socket.message().contains(#""r":1,"b":{"s":"ok""#))
            try await server.connect { client in
              for (name, value) in [("a", 1), ("b", 2), ("default", 3)] {
                let put = try await client.request(
                  "PUT", "/open/x.json?ns=\(name)", [:], "\(value)")
                #expect(put.status == 200, "\(put)")
              }
              #expect(try await first.event() == #"put {"path":"/x","data":1}"#)
              #expect(try await second.event() == #"put {"path":"/x","data":3}"#)
              #expect(try await socket.message().contains(#""p":"open/x","d":2"#))
              // The next event of each is the next write to its namespace: no other came between.
              try await socket.send(message: Self.request(2, "p", #"{"p":"/open/y","d":20}"#))
              #expect(try await socket.message().contains(#""d":20"#))
              #expect(try await socket.message().contains(#""r":2,"b":{"s":"ok""#))
              try await client.expect("GET", "/open.json?ns=b", text: #"{"x":2,"y":20}"#)
              _ = try await client.request("PUT", "/open/z.json?ns=a", [:], "10")
              #expect(try await first.event() == #"put {"path":"/z","data":10}"#)
              _ = try await client.request("PUT", "/open/z.json", [:], "30")
              #expect(try await second.event() == #"put {"path":"/z","data":30}"#)
            }
          }
        }
      }
    }
  }

  @Test func `an on-disconnect write of a WebSocket is made in its namespace`() async throws {
    let source = try MemoryNamespaces(["a"])
    try await withGateway(namespaces: source) { server in
      try await server.connect { socket in
        #expect(try await socket.upgrade("/.ws?v=5&ns=a") == 101)
        _ = try await socket.message()
        try await socket.send(message: Self.request(1, "o", #"{"p":"/open/gone","d":true}"#))
        #expect(try await socket.message().contains(#""r":1,"b":{"s":"ok""#))
      }
      try await server.connect { client in
        try await eventually {
          try await client.request("GET", "/open/gone.json?ns=a").text == "true"
        }
        try await client.expect("GET", "/open/gone.json", text: "null")
      }
    }
  }

  @Test func `a namespace stays open while a stream or a WebSocket uses it, and no longer`()
    async throws
  {
    let source = try MemoryNamespaces(["a", "b", "c"])
    var settings = Namespaces.Settings()
    settings.openMax = 2
    try await withGateway(namespaces: source, namespaceSettings: settings) { server in
      try await server.connect { client in
        try await server.connect { stream in
          try await stream.begin("GET", "/open.json?ns=a", Self.stream)
          #expect(try await stream.head().status == 200)
          try await server.connect { socket in
            #expect(try await socket.upgrade("/.ws?v=5&ns=b") == 101)
            _ = try await socket.message()
            try await socket.send(message: Self.request(1, "q", #"{"p":"/open","h":""}"#))
            _ = try await socket.message()
            let refused = try await client.request("GET", "/open.json?ns=c")
            #expect(
              refused.status == 503 && refused.text.contains("--namespaces-max"), "\(refused)")
            try await client.expect("GET", "/open.json?ns=b", status: 200)
          }
          // The WebSocket is gone, so its namespace gives way.
          try await eventually {
            try await client.request("GET", "/open.json?ns=c").status == 200
          }
          #expect(source.closed == ["b"])
          _ = try await client.request("PUT", "/open/x.json?ns=a", [:], "1")
          #expect(try await stream.event() == #"put {"path":"/","data":null}"#)
          #expect(try await stream.event() == #"put {"path":"/x","data":1}"#)
        }
        try await eventually {
          for name in ["b", "c"] {
            _ = try await client.request("GET", "/open.json?ns=\(name)")
          }
          return source.closed.contains("a")
        }
        try await client.expect("GET", "/open/x.json?ns=a", text: "1")
      }
    }
  }
}
