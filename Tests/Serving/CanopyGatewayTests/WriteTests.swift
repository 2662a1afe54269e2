import CanopyAccounts
import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyGateway

/// Writes by REST.
@Suite(.timeLimit(.minutes(20))) struct WriteTests {
  @Test func `PUT, PATCH, POST and DELETE write, and answer as official servers do`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let put = try await client.request("PUT", "/open/a.json", [:], #"{"x":1,"y":null,"z":[5]}"#)
        #expect(put.status == 200 && put.text == #"{"x":1,"z":[5]}"#, "\(put)")
        let patch = try await client.request(
          "PATCH", "/open/a.json", [:], #"{"x":2,"z/0":null,"n/m":true}"#)
        #expect(patch.status == 200 && patch.text == #"{"x":2,"z/0":null,"n/m":true}"#, "\(patch)")
        try await client.expect("GET", "/open/a.json", text: #"{"n":{"m":true},"x":2}"#)
        let post = try await client.request("POST", "/open/list.json", [:], #""item""#)
        let name = try #require(post.json?["name"]?.string)
        #expect(post.status == 200 && post.text == #"{"name":"\#(name)"}"#, "\(post)")
        try await client.expect("GET", "/open/list/\(name).json", text: "\"item\"")
        let delete = try await client.request("DELETE", "/open/a.json")
        #expect(delete.status == 200 && delete.text == "null", "\(delete)")
        try await client.expect("GET", "/open/a.json", text: "null")
        let silent = try await client.request("DELETE", "/open/list.json?print=silent")
        #expect(silent.status == 204, "\(silent)")
        #expect(server.parts.engine.root.at(try Path("open")).isAbsent)
      }
    }
  }

  @Test func `a POST stands for another method`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let put = try await client.request(
          "POST", "/open/a.json", ["X-HTTP-Method-Override": "PUT"], "1")
        #expect(put.text == "1", "\(put)")
        let delete = try await client.request(
          "POST", "/open/a.json?x-http-method-override=DELETE", [:], "")
        #expect(delete.text == "null", "\(delete)")
        // Only of a POST.
        let get = try await client.request(
          "GET", "/open/a.json", ["X-HTTP-Method-Override": "DELETE"])
        #expect(get.status == 200, "\(get)")
      }
    }
  }

  @Test func `server values are resolved, and the response has the result`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let now = server.parts.clock.now
        let put = try await client.request(
          "PUT", "/open/t.json", [:], #"{"at":{".sv":"timestamp"},"n":1}"#)
        #expect(put.text == #"{"at":\#(now),"n":1}"#, "\(put)")
        let patch = try await client.request(
          "PATCH", "/open/t.json", [:], #"{"n":{".sv":{"increment":4}}}"#)
        #expect(patch.text == #"{"n":5}"#, "\(patch)")
      }
    }
  }

  @Test func `a body that cannot be written has the official error`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        for (method, body) in [
          ("PUT", ""), ("PUT", "{"), ("PUT", #"{"a.b":1}"#), ("POST", "hello"), ("PUT", "1 2"),
          ("PUT", #"{"a":{".sv":"nothing"}}"#),
        ] {
          let response = try await client.request(method, "/open/a.json", [:], body)
          #expect(response.status == 400, "\(method) \(body)")
          let error = response.json?["error"]?.string ?? ""
          #expect(
            error.hasPrefix("Invalid data; couldn't parse JSON object, array, or value."),
            "\(method) \(body): \(error)")
        }
        for body in ["", "[", "3", #"{"a":1,"a/b":2}"#] {
          let response = try await client.request("PATCH", "/open/a.json", [:], body)
          #expect(response.status == 400, "\(body)")
        }
        try await client.expect("PUT", "/open/a.json?shallow=true", [:], "1", status: 400)
        #expect(server.parts.engine.root.at(try Path("open")).isAbsent)
      }
    }
  }

  @Test(arguments: ["PUT", "PATCH", "DELETE"])
  func `a conditional write is made only if the value has the ETag`(method: String) async throws {
    try await withGateway { server in
      try await server.connect { client in
        let body = method == "DELETE" ? nil : #"{"x":2}"#
        _ = try await client.request("PUT", "/open/a.json", [:], #"{"x":1}"#)
        let stale = try await client.request(method, "/open/a.json", ["if-match": "stale"], body)
        #expect(stale.status == 412 && stale.text == #"{"x":1}"#, "\(stale)")
        let etag = try #require(stale.fields["etag"])
        let made = try await client.request(method, "/open/a.json", ["if-match": etag], body)
        #expect(made.status == 200, "\(made.text)")
        let written = server.parts.engine.root.at(try Path("open/a")).etag
        #expect(made.fields["etag"] == (method == "PATCH" ? nil : written), "\(made)")
        let again = try await client.request(method, "/open/a.json", ["if-match": etag], body)
        #expect(again.status == 412, "\(again)")
        #expect(
          again.fields["etag"] == (method == "DELETE" ? "null_etag" : again.fields["etag"]),
          "\(again)")
        #expect(again.text == (method == "DELETE" ? "null" : #"{"x":2}"#), "\(again)")
        let post = try await client.request("POST", "/open/a.json", ["if-match": etag], "1")
        #expect(post.status == 400, "\(post)")
      }
    }
  }

  @Test func `a condition on a value that the caller may not read is refused, whatever its ETag`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let put = try await client.request(
          "PUT", "/hidden.json", server.administrator, #"{"pin":4711}"#)
        #expect(put.status == 200, "\(put)")
        let node = server.parts.engine.root.at(try Path("hidden"))
        for etag in [node.etag, "stale", "null_etag"] {
          for (target, body) in [("/hidden.json", "{}"), ("/none.json", "{}")] {
            let reply = try await client.request("PATCH", target, ["if-match": etag], body)
            #expect(reply.status == 401, "\(target) \(etag) \(reply.text)")
          }
        }
      }
    }
  }

  @Test(arguments: ["close", "Close", "keep-alive, close"])
  func `a connection closes after the response if the client says so`(option: String) async throws {
    try await withGateway { server in
      try await server.connect { client in
        let reply = try await client.request("GET", "/open.json", ["Connection": option])
        #expect(reply.status == 200, "\(reply)")
        #expect(try await client.end() == [])
      }
    }
  }

  @Test func `a write that asks for the ETag gets that of the new value`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let put = try await client.request(
          "PUT", "/open/a.json", ["X-Firebase-ETag": "true"], #"{"x":1}"#)
        #expect(put.text == #"{"x":1}"#, "\(put)")
        #expect(
          put.fields["etag"] == server.parts.engine.root.at(try Path("open/a")).hash, "\(put)")
        let large = try await client.request(
          "PUT", "/open/a.json", ["X-Firebase-ETag": "true"],
          #"{"x":"\#(String(repeating: "x", count: 10_000))"}"#)
        #expect(
          large.fields["etag"] == server.parts.engine.root.at(try Path("open/a")).hash, "\(large)")
      }
    }
  }

  @Test func `a write is answered when it is durable`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let gate = server.parts.journal.holdNextAppend()
        try await client.begin("PUT", "/open/a.json", [:], "1")
        await gate.reached()
        try await server.connect { other in
          let response = try await other.request("GET", "/open/a.json")
          #expect(response.text == "null", "\(response)")
        }
        gate.open()
        #expect(try await client.response().text == "1")
      }
    }
  }

  @Test func `a failed journal is 503, and the write was not made`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        server.parts.journal.fail(true)
        let response = try await client.request("PUT", "/open/a.json", [:], "1")
        #expect(response.status == 503, "\(response)")
        server.parts.journal.fail(false)
        try await client.expect("GET", "/open/a.json", text: "null")
      }
    }
  }

  @Test func `a user name that is taken is refused with the reason, and another refusal without`()
    async throws
  {
    try await withGateway(rules: nil) { server in
      let (token, uid) = try await server.signUp("ada")
      try await server.connect { client in
        let claim = try await client.request(
          "PUT", "/usernames/bob.json", server.administrator, "\"somebody\"")
        #expect(claim.status == 200, "\(claim)")
        let path = "/users/\(uid).json?auth=\(token)"
        let taken = try await client.request("PUT", path, [:], #"{"username":"Bob"}"#)
        #expect(taken.status == 401, "\(taken)")
        #expect(
          taken.text == #"{"error":"the user name Bob is taken; choose another"}"#, "\(taken)")
        let refused = try await client.request("PUT", path, [:], #"{"username":"b b"}"#)
        #expect(
          refused.status == 401 && refused.text == #"{"error":"Permission denied"}"#, "\(refused)")
        let allowed = try await client.request("PUT", path, [:], #"{"username":"Robin"}"#)
        #expect(allowed.status == 200, "\(allowed.text)")
      }
    }
  }

  @Test func `the data that follows from a post is written by the same commit`() async throws {
    try await withGateway(rules: nil) { server in
      let (token, uid) = try await server.signUp("ada")
      try await server.connect { client in
        let post = """
          {"uid":"\(uid)","author":"ada","title":"Title","body":"Body"}
          """
        // The key of a post is a push id of this time.
        let key = try await client.request("POST", "/keys.json", server.administrator, "1")
        let id = try #require(key.json?["name"]?.string)
        let update = #"{"posts/\#(id)":\#(post),"user-posts/\#(uid)/\#(id)":\#(post)}"#
        let made = try await client.request("PATCH", "/.json?auth=\(token)", [:], update)
        #expect(made.status == 200, "\(made.text)")
        let star = try await client.request(
          "PATCH", "/posts/\(id).json?auth=\(token)", [:],
          #"{"stars/\#(uid)":true,"starCount":{".sv":{"increment":1}}}"#)
        #expect(star.status == 200, "\(star.text)")
        // The copy follows.
        let copy = "/user-posts/\(uid)/\(id)/starCount.json"
        try await client.expect("GET", copy, text: "1")
        let denied = try await client.request("PUT", "/posts/\(id)/title.json", [:], "\"Other\"")
        #expect(
          denied.status == 401 && denied.text == #"{"error":"Permission denied"}"#, "\(denied)")
      }
    }
  }
}
