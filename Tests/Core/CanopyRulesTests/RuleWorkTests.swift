#if CANOPY_COUNT_WORK
  import CanopyTree
  import Testing

  @testable import CanopyRules

  struct RuleWorkTests {
    @Test func `evaluating a write costs its own size, whatever the size of the tree`() throws {
      func touched(stars: Int, posts: Int) throws -> Int {
        let rules = try BuiltInRules.load()
        var root = Node.absent
        for i in 0..<posts {
          let post = try tree(#"{"uid":"ann","author":"Ann","title":"t","body":"b"}"#)
          root.set(post, at: try Path("posts/p\(i)"))
        }
        let entries = try (0..<stars).map { (try Key("user\(100_000 + $0)"), Node(true)) }
        root.set(Node(children: entries), at: try Path("posts/p0/stars"))
        root.set(Node(Int64(stars)), at: try Path("posts/p0/starCount"))
        let star = [
          Assignment(try Path("posts/p0/starCount"), Node(Int64(stars) + 1)),
          Assignment(try Path("posts/p0/stars/dan"), true),
        ]
        var after = Tree(root: root)
        after.apply(star)
        let caller = user("dan")
        var isAllowed = false
        let count = WorkCounter.nodesTouched {
          isAllowed = rules.authorize(star, before: root, after: after.root, as: caller).isAllowed
        }
        #expect(isAllowed)
        return count
      }
      let few = try touched(stars: 150, posts: 10)
      let many = try touched(stars: 5_000, posts: 500)
      // Two of them find out whether the star adds starCount or leaves it.
      #expect(few <= 42)
      #expect(many <= few + 20, "a few levels more where there are many")
    }
  }
#endif
