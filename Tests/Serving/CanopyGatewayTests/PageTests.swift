import CanopyTesting
import CanopyWeb
import NIOCore
import Testing

@testable import CanopyGateway

/// The web pages, as a browser gets them.
@Suite(.timeLimit(.minutes(20))) struct PageTests {
  @Test func `a page is sent plain or compressed, each with an ETag that is answered with 304`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let file = try #require(WebPages.file(at: []))
        var etags: Set<String> = []
        for coding in ["", "gzip"] {
          let accepted = ["Accept-Encoding": coding]
          let page = try await client.request("GET", "/", accepted)
          #expect(
            page.status == 200 && page.fields["content-type"] == "text/html; charset=utf-8",
            "\(page)")
          #expect(page.fields["vary"] == "Accept-Encoding", "\(page)")
          #expect(page.fields["content-encoding"] == (coding == "" ? nil : "gzip"), "\(page)")
          #expect((coding == "" ? page.body : try decompressed(page.body)) == file.bytes, "\(page)")
          let etag = try #require(page.fields["etag"])
          etags.insert(etag)
          for known in [etag, "\"other\", W/\(etag)", "*"] {
            let again = try await client.request(
              "GET", "/", ["Accept-Encoding": coding, "If-None-Match": known])
            #expect(
              again.status == 304 && again.body.isEmpty && again.fields["etag"] == etag, "\(again)")
          }
          let other = try await client.request(
            "GET", "/", ["Accept-Encoding": coding, "If-None-Match": "\"other\""])
          #expect(other.status == 200, "\(other)")
        }
        #expect(etags.count == 2)
      }
    }
  }

  @Test func `every response forbids code and styles in markup, and a guess of its type`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        for path in ["/", "/console/", "/shared/line.js", "/shared/style.css"] {
          let response = try await client.request("GET", path, ["Origin": "http://other.example"])
          let policy = try #require(response.fields["content-security-policy"])
          #expect(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"))
          #expect(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"))
          #expect(response.fields["x-content-type-options"] == "nosniff", "\(response)")
          #expect(response.fields["referrer-policy"] == "same-origin", "\(response)")
          #expect(response.fields["cache-control"] == "no-cache", "\(response)")
          // The tree is for pages of all origins; the pages are not.
          #expect(response.fields["access-control-allow-origin"] == nil, "\(response)")
        }
      }
    }
  }

  @Test func `HEAD gets the fields of GET without the body, and other methods are refused`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        try await client.begin("HEAD", "/shared/line.js")
        let (status, fields) = try await client.head()
        let bytes = try #require(WebPages.file(at: ["shared", "line.js"])?.bytes)
        #expect(status == 200 && fields["content-length"] == "\(bytes.count)")
        let post = try await client.request("POST", "/", [:], "x")
        #expect(post.status == 405 && post.fields["allow"] == "GET, HEAD", "\(post)")
      }
    }
  }

  @Test
  func `a page's path gets the page, its REST twin the tree, and other namespaces have no blog`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let page = try await client.request("GET", "/")
        for path in ["/post/-OkNdt6c", "/user/ada/top", "/mine?ns=default", "//top/"] {
          #expect(try await client.request("GET", path).body == page.body, "\(path)")
        }
        let tree = try await client.request("GET", "/post/-OkNdt6c.json", server.administrator)
        #expect(tree.text == "null", "\(tree)")
        let other = try await client.request("GET", "/?ns=other")
        #expect(
          other.status == 404 && other.text.contains("namespace other has no blog"), "\(other)")
        try await client.expect("GET", "/console/?ns=other", status: 200)
        try await client.expect("GET", "/blog/nothing.js", status: 404)
      }
    }
  }

  @Test
  func `a browser gets the page of the blog for an unknown address, and a program a sentence`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let page = try await client.request("GET", "/")
        let browser = ["Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"]
        for path in ["/nowhere", "/post/", "/post/a/b/c", "/console/nothing"] {
          let unknown = try await client.request("GET", path, browser)
          #expect(unknown.status == 404 && unknown.body == page.body, "\(path)")
          #expect(unknown.fields["content-security-policy"] != nil, "\(unknown)")
          #expect(unknown.fields["vary"] == "Accept, Accept-Encoding", "\(unknown)")
        }
        for fields in [[:], ["Accept": "*/*"], ["Accept": "text/html;q=0"]] {
          let refused = try await client.request("GET", "/nowhere", fields)
          #expect(refused.status == 404 && refused.text.contains("append .json"), "\(fields)")
        }
        let post = try await client.request("POST", "/nowhere", browser, "x")
        #expect(post.status == 404 && post.text.contains("append .json"), "\(post)")
      }
    }
  }

  @Test func `the first page has at most 60 KB, compressed`() {
    let bytes = PageFile.all.filter { !$0.key.hasPrefix("/console/") }.values.map {
      ($0.gzip ?? $0.plain).bytes.readableBytes
    }
    #expect(bytes.count > 20 && bytes.reduce(0, +) <= 60_000, "\(bytes.reduce(0, +))")
  }
}
