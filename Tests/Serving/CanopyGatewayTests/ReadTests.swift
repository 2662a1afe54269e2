import CanopyAccounts
import CanopyEngine
import CanopyEvents
import CanopySession
import CZlib
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyGateway

/// Reads by REST.
@Suite(.timeLimit(.minutes(20))) struct ReadTests {
  private func withData(_ body: (GatewayServer, HTTPClient) async throws -> Void) async throws {
    try await withGateway { server in
      try await server.connect { client in
        let data = """
          {"a":{"b":1,"c":[true,"x"]},"p":{".value":2,".priority":5},
           "indexed":{"x":{"n":3},"y":{"n":1},"z":{"n":2}},"s":"é"}
          """
        let response = try await client.request("PUT", "/open.json?print=silent", [:], data)
        #expect(response.status == 204 && response.body.isEmpty, "\(response)")
        try await body(server, client)
      }
    }
  }

  @Test func `GET returns the value of a location as JSON`() async throws {
    try await withData { _, client in
      let response = try await client.request("GET", "/open/a.json")
      #expect(response.status == 200, "\(response)")
      #expect(response.text == #"{"b":1,"c":[true,"x"]}"#, "\(response)")
      #expect(response.fields["content-type"] == "application/json; charset=utf-8", "\(response)")
      try await client.expect("GET", "/open/a/.json", text: response.text)
      try await client.expect("GET", "/open/s.json", text: "\"é\"")
      try await client.expect("GET", "/open/none.json", text: "null")
      try await client.expect("GET", "/open/p/.priority.json", text: "5")
      try await client.expect("GET", "http://host:9/open/a/b.json", text: "1")
    }
  }

  @Test func `the parts of a path are decoded, and a bad one is refused`() async throws {
    try await withData { _, client in
      _ = try await client.request("PUT", "/open/a%20b/%C3%A9.json", [:], "7")
      try await client.expect("GET", "/open/a%20b.json", text: #"{"é":7}"#)
      for target in [
        "/open/%ff.json", "/open/%4.json", "/open/a%2Fb.json", "/open/a.b.json", "/open/%00.json",
        "/open/x.json?orderBy=%ff", "/" + String(repeating: "a/", count: 33) + ".json",
      ] {
        let response = try await client.request("GET", target)
        #expect(response.status == 400 && response.json?["error"]?.string != nil, "\(target)")
      }
    }
  }

  @Test func `an address without .json has nothing, and an unknown method is refused`() async throws
  {
    try await withData { _, client in
      for target in ["/open/a", "/open", "/open/a.jso", "/.jso", "/open.json/a"] {
        #expect(try await client.request("GET", target).status == 404, "\(target)")
      }
      for method in ["HEAD", "TRACE"] {
        try await client.begin(method, "/open/a.json")
        let (status, fields) = try await client.head()
        #expect(status == 405 && fields["allow"] == "GET, PUT, POST, PATCH, DELETE")
        if let length = fields["content-length"].flatMap({ Int($0) }) {
          try await client.skip(length)
        }
      }
    }
  }

  @Test func `the forms of a value are those that the parameters ask for`() async throws {
    try await withData { _, client in
      try await client.expect("GET", "/open/a.json?shallow=true", text: #"{"b":true,"c":true}"#)
      try await client.expect("GET", "/open/a/b.json?shallow=true", text: "1")
      try await client.expect(
        "GET", "/open/p.json?format=export", text: #"{".value":2,".priority":5}"#)
      let pretty = try await client.request("GET", "/open/a.json?print=pretty")
      #expect(pretty.text == "{\n  \"b\" : 1,\n  \"c\" : [ true, \"x\" ]\n}", "\(pretty)")
      let silent = try await client.request("GET", "/open/a.json?print=silent")
      #expect(silent.status == 204 && silent.body.isEmpty, "\(silent)")
      let file = try await client.request("GET", "/open/a.json?download=my%22file.json")
      #expect(
        file.fields["content-disposition"] == "attachment; filename=\"my_file.json\"", "\(file)")
      for query in [
        "print=loud", "format=xml", "shallow=1", "timeout=3", "timeout=16min", "timeout=0s",
        "shallow=true&orderBy=%22$key%22", "writeSizeLimit=huge",
      ] {
        #expect(try await client.request("GET", "/open/a.json?\(query)").status == 400, "\(query)")
      }
      for query in ["timeout=3ms", "timeout=3s", "timeout=15min", "writeSizeLimit=tiny"] {
        #expect(try await client.request("GET", "/open/a.json?\(query)").status == 200, "\(query)")
      }
    }
  }

  @Test func `a query selects and orders the children`() async throws {
    try await withData { _, client in
      func get(_ query: String) async throws -> String {
        try await client.request("GET", "/open/indexed.json?\(query)").text
      }
      #expect(
        try await get("orderBy=%22n%22&limitToFirst=2") == #"{"y":{"n":1},"z":{"n":2}}"#)
      #expect(try await get("orderBy=%22n%22&startAfter=2") == #"{"x":{"n":3}}"#)
      #expect(try await get("orderBy=%22n%22&equalTo=1") == #"{"y":{"n":1}}"#)
      #expect(
        try await get("orderBy=%22$key%22&startAt=%22y%22&endBefore=%22z%22")
          == #"{"y":{"n":1}}"#)
      #expect(try await get("orderBy=%22n%22&equalTo=9") == "{}")
      #expect(try await get("orderBy=%22$priority%22&limitToLast=1") == #"{"z":{"n":2}}"#)
      let response = try await client.request(
        "GET", "/open/none.json?orderBy=%22$key%22&limitToFirst=1")
      #expect(response.text == "null", "\(response)")
    }
  }

  @Test func `a wrong query has the official error`() async throws {
    try await withData { server, client in
      func error(_ query: String) async throws -> String? {
        let response = try await client.request("GET", "/open/a.json?\(query)")
        #expect(response.status == 400, "\(response)")
        return response.json?["error"]?.string
      }
      #expect(
        try await error("limitToFirst=2")
          == "orderBy must be defined when other query parameters are defined")
      #expect(try await error("orderBy=name") == "orderBy must be a valid JSON encoded path")
      #expect(
        try await error("orderBy=%22score%22")
          == "Index not defined, add \".indexOn\": \"score\", for path \"/open/a\", to the rules")
      _ = try await error("orderBy=%22$key%22&limitToFirst=0")
      _ = try await error("orderBy=%22$key%22&orderBy=%22$key%22")
      let administrator = try await client.request(
        "GET", "/open/indexed.json?orderBy=%22m%22&limitToFirst=1", server.administrator)
      #expect(administrator.status == 200, "\(administrator)")
    }
  }

  @Test func `an ETag is sent where it is asked for, and 304 for the same one`() async throws {
    try await withData { _, client in
      #expect(try await client.request("GET", "/open/a.json").fields["etag"] == nil)
      let response = try await client.request("GET", "/open/a.json", ["X-Firebase-ETag": "true"])
      let etag = try #require(response.fields["etag"])
      let same = try await client.request("GET", "/open/a.json", ["If-None-Match": etag])
      #expect(same.status == 304 && same.body.isEmpty && same.fields["etag"] == etag, "\(same)")
      let other = try await client.request("GET", "/open/a.json", ["If-None-Match": "x"])
      #expect(other.status == 200 && other.fields["etag"] == etag, "\(other)")
      let none = try await client.request("GET", "/open/no.json", ["X-Firebase-ETag": "true"])
      #expect(none.fields["etag"] == "null_etag", "\(none)")
      let query = try await client.request(
        "GET", "/open/a.json?orderBy=%22$key%22", ["X-Firebase-ETag": "true"])
      #expect(query.status == 400, "\(query)")
    }
  }

  @Test func `a read of a later commit than the last one is refused, and the connection goes on`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let response = try await client.request("GET", "/open/a.json?atLeast=999")
        #expect(response.status == 503, "\(response.text)")
        #expect(response.json?["error"]?.string?.contains("commit") == true, "\(response.text)")
        try await client.expect("GET", "/open/a.json?atLeast=0", text: "null")
      }
    }
  }

  @Test func `a large value is sent in pieces, and is the same value`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        let text = String(repeating: "0123456789", count: 2_000)
        let members = (0..<20).map { #""k\#($0)":"\#(text)""# }.joined(separator: ",")
        let data = "{\(members)}"
        try await client.expect("PUT", "/open/large.json?print=silent", [:], data, status: 204)
        let response = try await client.request("GET", "/open/large.json")
        #expect(response.fields["transfer-encoding"] == "chunked", "\(response)")
        #expect(try Node(json: response.text) == Node(json: data), "\(response)")
        let pretty = try await client.request("GET", "/open/large.json?print=pretty")
        #expect(pretty.body.count > response.body.count, "\(pretty) \(response)")
        #expect(try Node(json: pretty.text) == Node(json: data), "\(pretty)")
      }
    }
  }

  @Test func `a long body is compressed for a client that accepts gzip`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        for (name, count) in [("short", 10), ("long", 5_000), ("pieces", 400_000)] {
          let data = "{\"a\":\"\(String(repeating: "0123456789", count: count / 10))\"}"
          let path = "/open/\(name).json"
          try await client.expect("PUT", path + "?print=silent", [:], data, status: 204)
          for accepted in ["gzip", "deflate, GZIP;q=0.5", "br", "gzip;q=0", "gzip; q=0.00"] {
            let response = try await client.request("GET", path, ["Accept-Encoding": accepted])
            let isCompressed = response.fields["content-encoding"] == "gzip"
            #expect(
              isCompressed
                == (name != "short" && ["gzip", "deflate, GZIP;q=0.5"].contains(accepted)),
              "\(name) \(accepted)")
            #expect(
              (response.fields["vary"] == "Accept-Encoding") == (name != "short"), "\(response)")
            let body = isCompressed ? try decompressed(response.body) : response.body
            #expect(String(decoding: body, as: UTF8.self) == data)
          }
        }
      }
    }
  }
}

/// Returns the bytes of a body in the format of gzip.
func decompressed(_ bytes: [UInt8]) throws -> [UInt8] {
  var stream = z_stream()
  var input = bytes
  var output = [UInt8](repeating: 0, count: 1_000_000)
  #expect(
    inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, CInt(MemoryLayout<z_stream>.size)) == Z_OK)
  defer { inflateEnd(&stream) }
  let count = input.withUnsafeMutableBufferPointer { input in
    output.withUnsafeMutableBufferPointer { output in
      stream.next_in = input.baseAddress
      stream.avail_in = CUnsignedInt(input.count)
      stream.next_out = output.baseAddress
      stream.avail_out = CUnsignedInt(output.count)
      #expect(inflate(&stream, Z_FINISH) == Z_STREAM_END)
      return output.count - Int(stream.avail_out)
    }
  }
  return Array(output[..<count])
}
