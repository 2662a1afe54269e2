import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

/// The pages of everything that a user has added.
@Suite(.timeLimit(.minutes(20))) struct ContributionsTests {
  /// Everything on all pages of a user.
  private struct All: Equatable {
    var posts: [Key] = []
    var comments: [Key] = []
    var stars: [Key] = []
    var pages = 0
  }

  private func all(
    of uid: Key, _ blog: Blog, limit: Int, scannedMax: Int
  ) throws -> All {
    var all = All()
    var position: Contributions.Position? = .posts(after: nil)
    while let next = position {
      let page = Contributions(
        of: uid, from: next, limit: limit, scannedMax: scannedMax, in: blog.root)
      #expect(page.posts.count + page.comments.count + page.stars.count <= limit)
      all.posts += page.posts.map(\.id)
      all.comments += page.comments.map(\.id)
      all.stars += page.stars
      all.pages += 1
      // Through the text of a cursor, as clients do it.
      position = page.next.flatMap { Contributions.Position($0.text) }
      try #require(all.pages < 100)
    }
    return all
  }

  @Test func `the pages have everything once, whatever their limits`() async throws {
    try await Blog.with { blog in
      var expected = All()
      for number in 0..<5 {
        let others = try await blog.post("bob")
        expected.posts.append(try await blog.post("ada"))
        expected.comments.append(try await blog.comment("ada", on: others))
        _ = try await blog.comment("eve", on: others)
        if number % 2 == 0 {
          try await blog.star("ada", others)
          expected.stars.append(others)
        }
      }
      for limit in 1...15 {
        for scannedMax in [1, 2, 9, 10, 11, 100] {
          var found = try all(of: "ada", blog, limit: limit, scannedMax: scannedMax)
          found.pages = 0
          #expect(found == expected, "\(limit) \(scannedMax)")
        }
      }
      #expect(
        try all(of: "nobody", blog, limit: 10, scannedMax: 100) == All(pages: 1))
    }
  }

  @Test func `a page ends after a bound of bytes, and has at least one entry`() async throws {
    try await Blog.with { blog in
      let body = String(repeating: "x", count: 65_536)
      for _ in 0..<3 { _ = try await blog.post("ada", "t", body) }
      let page = Contributions(of: "ada", from: .posts(after: nil), limit: 100, in: blog.root)
      #expect(page.posts.count == 1)
      #expect(page.next == .posts(after: page.posts.first?.id))
      let found = try all(of: "ada", blog, limit: 100, scannedMax: 100)
      #expect(found.posts.count == 3 && found.pages == 4)
    }
  }

  @Test(arguments: ["", "posts", "all:x", ":x", "posts:a/b", "stars:.", "posts:\u{301}/"])
  func `another text is not a cursor`(_ text: String) {
    #expect(Contributions.Position(text) == nil)
  }

  @Test func `a key with a colon is part of a cursor`() {
    let key: Key = "a:b"
    for position: Contributions.Position in [
      .posts(after: key), .comments(after: key), .stars(after: key), .posts(after: nil),
    ] { #expect(Contributions.Position(position.text) == position) }
  }
}
