import CanopyTesting
import Foundation
import Testing

@testable import CanopyWeb

/// The files of the pages, and the paths at which they are served.
struct WebPagesTests {
  private static let folder = Checkout.root.appending(path: "Sources/Serving/CanopyWeb/Pages")
  private static let scripts = WebPages.all.filter { $0.path.hasSuffix(".js") }

  @Test func `every file of the folder is embedded with its present bytes, and no other`() throws {
    let names = FileManager.default.enumerator(atPath: Self.folder.path)
    let files = (names?.compactMap { $0 as? String } ?? []).filter { $0.contains(".") }
    #expect(files.map { "/" + $0 }.sorted() == WebPages.all.map(\.path).sorted())
    for file in WebPages.all {
      let bytes = try Data(contentsOf: Self.folder.appending(path: String(file.path.dropFirst())))
      #expect(Array(bytes) == file.bytes, "\(file.path)")
    }
    // The build names the bytes by these, so two files of one name would be one.
    let last = WebPages.all.compactMap { $0.path.split(separator: "/").last }
    #expect(Set(last).count == last.count)
  }

  @Test func `every view of the blog has a path that is served, so that it survives a reload`()
    throws
  {
    let app = try #require(WebPages.all.first { $0.path == "/blog/app.js" })
    let views = app.text.matches(of: /"(\/[^"]*)":/).map { String($0.1) }
    #expect(views.count > 10)
    for view in views {
      let path = view.replacing("(top)", with: "top").replacing(":", with: "-OkNdt6c")
      let parts = path.split(separator: "/").map(String.init)
      #expect(WebPages.file(at: parts)?.path == "/blog/blog.html", "\(path)")
      #expect(WebPages.file(at: parts + ["more", "x"]) == nil)
    }
    #expect(WebPages.file(at: ["posts"]) == nil)
    #expect(WebPages.file(at: ["console"])?.path == "/console/console.html")
    #expect(WebPages.file(at: ["console", "nothing.js"]) == nil)
    #expect(
      WebPages.file(at: ["shared", "line.js"])?.mediaType == "text/javascript; charset=utf-8")
  }

  @Test func `the page of the blog loads all its modules at once, and each of them exists`() throws
  {
    let page = try #require(WebPages.file(at: []))
    let needed = Self.scripts.map(\.path).filter { !$0.hasPrefix("/console/") }
    #expect(WebPages.modules(of: page).map(\.path).sorted() == needed.sorted())
    #expect(WebPages.file(at: ["console"]).map(WebPages.modules)?.isEmpty == false)
    #expect(WebPages.file(at: ["shared", "line.js"]).map(WebPages.modules) == [])
    for script in Self.scripts {
      let folder = script.path.split(separator: "/")[0]
      for imported in script.text.matches(of: /(?:from|import) "([^"]*)"/).map({ String($0.1) }) {
        let path = imported.hasPrefix("./") ? "/\(folder)\(imported.dropFirst())" : imported
        #expect(WebPages.all.contains { $0.path == path }, "\(script.path) imports \(imported)")
      }
    }
  }

  @Test func `markup has no code or styles, and texts never become markup`() {
    for file in WebPages.all where file.path.hasSuffix(".html") {
      #expect(
        !file.text.contains(/<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|javascript:/),
        "\(file.path)")
    }
    let markup =
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function|setAttribute\("style/
    for file in Self.scripts { #expect(!file.text.contains(markup), "\(file.path)") }
  }

  @Test func `the pages load nothing from other hosts`() {
    for file in WebPages.all {
      let hosts = file.text.matches(of: /https?:\/\/[a-z0-9.]+/).map { String($0.0) }
      #expect(hosts.allSatisfy { $0 == "http://www.w3.org" }, "\(file.path): \(hosts)")
    }
  }

  @Test func `the pages stay small: 3,100 lines that are not blank, and 300 lines in a file`() {
    let files = WebPages.all.filter { !$0.path.hasSuffix(".png") }.map {
      $0.text.split(separator: "\n", omittingEmptySubsequences: false)
    }
    let lines = files.map { $0.count { !$0.allSatisfy(\.isWhitespace) } }
    #expect(lines.reduce(0, +) <= 3_100, "\(lines)")
    #expect(files.allSatisfy { $0.count <= 301 }, "\(files.map(\.count))")
  }
}

extension WebFile {
  fileprivate var text: String { String(decoding: bytes, as: UTF8.self) }
}
