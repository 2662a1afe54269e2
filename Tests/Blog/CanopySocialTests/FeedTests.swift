import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct FeedTests {
  /// Reads a list page by page.
  private func walk(
    by limit: Int, _ feed: (Feeds.Page) throws -> [Feeds.Entry]
  ) throws -> [[Key]] {
    var pages: [[Key]] = []
    var before: Key?
    while true {
      let page = try feed(Feeds.Page(limit: limit, before: before)).map(\.key)
      guard let last = page.last else { return pages }
      pages.append(page)
      before = last
    }
  }

  @Test func `the pages have every entry once, newest first`() async throws {
    try await Blog.with { blog in
      var all: [Key] = []
      var own: [Key: [Key]] = [:]
      for number in 0..<23 {
        if number % 3 == 0 { blog.clock.advance(Int64(number)) }
        let uid: Key = number % 4 == 0 ? "bob" : "ada"
        let id = try await blog.post(uid)
        all.append(id)
        own[uid, default: []].append(id)
      }
      let root = blog.root
      for limit in 1...25 {
        let pages = try walk(by: limit) { Feeds.recent($0, in: root) }
        #expect(pages.flatMap { $0 } == all.reversed())
        #expect(pages.dropLast().allSatisfy { $0.count == limit })
        for (uid, ids) in own {
          let pages = try walk(by: limit) { Feeds.posts(by: uid, $0, in: root) }
          #expect(pages.flatMap { $0 } == ids.reversed())
        }
      }
      #expect(Feeds.posts(by: "nobody", try Feeds.Page(), in: root).isEmpty)
      #expect(try Feeds.recent(Feeds.Page(), in: root).count == 20)
      let newest = try #require(Feeds.recent(Feeds.Page(limit: 1), in: root).first)
      #expect(newest.node == (try Posts.find(newest.key, in: root)))
    }
  }

  @Test func `paging continues after an entry that was removed`() async throws {
    try await Blog.with { blog in
      var ids: [Key] = []
      for _ in 0..<10 { ids.append(try await blog.post()) }
      try await blog.make { [id = ids[6]] in try Posts.delete(id, by: "ada", in: &$0) }
      let page = try Feeds.Page(limit: 3, before: ids[6])
      #expect(Feeds.recent(page, in: blog.root).map(\.key) == [ids[5], ids[4], ids[3]])
      #expect(Feeds.posts(by: "ada", page, in: blog.root).map(\.key) == [ids[5], ids[4], ids[3]])
      #expect(Feeds.recent(try Feeds.Page(before: ids[0]), in: blog.root).isEmpty)
      #expect(Feeds.recent(try Feeds.Page(before: "zzz"), in: blog.root).count == 9)
      #expect(Feeds.recent(try Feeds.Page(before: Key(index: 7)), in: blog.root).isEmpty)
    }
  }

  @Test func `comments have pages like posts`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post()
      let other = try await blog.post()
      var comments: [Key] = []
      for number in 0..<11 {
        comments.append(try await blog.comment(number % 2 == 0 ? "ada" : "bob", on: id))
        _ = try await blog.comment("eve", on: other)
      }
      let removed = comments.remove(at: 4)
      try await blog.make { try Comments.delete(removed, on: id, by: "ada", in: &$0) }
      let root = blog.root
      for limit in 1...12 {
        let pages = try walk(by: limit) { try Feeds.comments(on: id, $0, in: root) }
        #expect(pages.flatMap { $0 } == comments.reversed())
      }
      let none = try await blog.post()
      #expect(try Feeds.comments(on: none, Feeds.Page(), in: blog.root).isEmpty)
    }
  }

  @Test func `pages by stars go on after a post without a count`() async throws {
    try await Blog.with { blog in
      var sorted: [Key] = []
      var uncounted: [Key] = []
      for _ in 0..<4 {
        let id = try await blog.post()
        sorted.insert(id, at: 0)
        blog.clock.advance(1)
        uncounted.insert(try successor(of: id), at: 0)
        try await blog.write(uncounted[0], by: "ada")
      }
      sorted += uncounted
      for limit in 1...9 {
        for uid in [nil, "ada"] as [Key?] {
          var paged: [Key] = []
          // One page more than there are, so that the walk ends in any case.
          for _ in 0...sorted.count / limit + 1 {
            let page = try Feeds.Page(limit: limit, before: paged.last)
            paged += try Feeds.top(by: uid, page, in: blog.root).map(\.key)
          }
          #expect(paged == sorted)
        }
      }
    }
  }

  @Test func `a page has 1 to 100 entries`() throws {
    for limit in [1, 100] { #expect(try Feeds.Page(limit: limit).limit == limit) }
    for limit in [Int.min, -1, 0, 101, Int.max] {
      #expect(throws: SocialError.invalid("limit must be 1 to 100")) {
        try Feeds.Page(limit: limit)
      }
    }
  }

  @Test func `posts with more stars come first, and among equals the newest`() async throws {
    var random = SeededGenerator(printingSeedFor: "FeedTests")
    let seed = random.next()
    try await Blog.with { blog in
      var random = SeededGenerator(seed: seed)
      var posts: [(id: Key, uid: Key, stars: Set<Int32>)] = []
      for _ in 0..<40 {
        let uid: Key = random.pick(["ada", "bob"])
        posts.append((try await blog.post(uid), uid, []))
      }
      for _ in 0..<150 {
        let i = Int.random(in: 0..<posts.count, using: &random)
        let star = Int32.random(in: 0..<5, using: &random)
        let state = try await blog.star(Key(index: star), posts[i].id)
        posts[i].stars.formSymmetricDifference([star])
        #expect(state.starCount == Int64(posts[i].stars.count))
        #expect(state.isStarred == posts[i].stars.contains(star))
      }
      let sorted = posts.sorted {
        $0.stars.count != $1.stars.count ? $0.stars.count > $1.stars.count : $1.id < $0.id
      }
      for limit in [1, 2, 7, 39, 40, 100] {
        let all = try Feeds.top(by: nil, Feeds.Page(limit: limit), in: blog.root)
        #expect(all.map(\.key) == sorted.prefix(limit).map(\.id))
        for uid in ["ada", "bob"] as [Key] {
          let own = try Feeds.top(by: uid, Feeds.Page(limit: limit), in: blog.root).map(\.key)
          #expect(own == sorted.filter { $0.uid == uid }.prefix(limit).map(\.id))
        }
      }
      #expect(try Feeds.top(by: "eve", Feeds.Page(limit: 5), in: blog.root).isEmpty)
      // Page by page, each after the last post of the previous page.
      var paged: [Key] = []
      while paged.count < sorted.count {
        let page = try Feeds.Page(limit: 7, before: paged.last)
        let next = try Feeds.top(by: nil, page, in: blog.root).map(\.key)
        #expect(!next.isEmpty)
        if next.isEmpty { break }
        paged += next
      }
      #expect(paged == sorted.map(\.id))
      #expect(throws: SocialError.self) {
        try Feeds.top(by: nil, Feeds.Page(limit: 7, before: "gone"), in: blog.root)
      }
    }
  }
}
