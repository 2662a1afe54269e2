import CanopySocial
import CanopyTree
import Testing

struct SocialCheckTests {
  /// A small consistent blog: ada's post p with bob's star and comment c, and bob's post q.
  static let sound = json(
    """
    {
      "users": {
        "ada": {"username": "Ada", "createdAt": 1}, "bob": {"username": "bob", "createdAt": 2}
      },
      "usernames": {"ada": "ada", "bob": "bob"},
      "posts": {
        "p": {"uid": "ada", "author": "Ada", "title": "t", "body": "b", "createdAt": 3,
          "starCount": 1, "stars": {"bob": true}, "commentCount": 1},
        "q": {"uid": "bob", "author": "bob", "title": "t", "body": "b", "createdAt": 4,
          "starCount": 0}
      },
      "user-posts": {
        "ada": {"p": {"uid": "ada", "author": "Ada", "title": "t", "body": "b", "createdAt": 3,
          "starCount": 1, "stars": {"bob": true}, "commentCount": 1}},
        "bob": {"q": {"uid": "bob", "author": "bob", "title": "t", "body": "b", "createdAt": 4,
          "starCount": 0}}
      },
      "post-comments": {"p": {"c": {"uid": "bob", "author": "bob", "text": "x", "createdAt": 5}}},
      "user-comments": {"bob": {"c": "p"}}
    }
    """)

  @Test func `a consistent tree and an empty tree have no problems`() {
    #expect(SocialCheckTests.sound.isBranch)
    #expect(SocialCheck.problems(in: SocialCheckTests.sound) == [])
    #expect(SocialCheck.problems(in: .absent) == [])
  }

  /// Paths to change, the new value, and a word that the reported sentence must have.
  @Test(
    arguments: [
      (["posts/q/uid"], "null", "has no uid"),
      (["posts/q/uid"], "\"a/b\"", "has no uid"),
      (["user-posts/ada/p"], "null", "is not in /user-posts"),
      (["posts/p"], "null", "is not in /posts"),
      (["posts/p/title"], "\"other\"", "differs from its copy"),
      (["user-posts/ada/p/stars/eve"], "true", "differs from its copy"),
      (["posts/p/starCount", "user-posts/ada/p/starCount"], "7", "another starCount"),
      (["posts/p/starCount", "user-posts/ada/p/starCount"], "null", "another starCount"),
      (["posts/p/stars", "user-posts/ada/p/stars"], "null", "another starCount"),
      (["posts/q/stars/ada", "user-posts/bob/q/stars/ada"], "true", "another starCount"),
      (["posts/p/commentCount", "user-posts/ada/p/commentCount"], "2", "another commentCount"),
      (["posts/p/commentCount", "user-posts/ada/p/commentCount"], "null", "another commentCount"),
      (["posts/p/author", "user-posts/ada/p/author"], "\"ada\"", "another author's name"),
      (["users/ada/username"], "\"ADA\"", "another author's name"),
      (["user-posts/eve/p"], "{\"uid\":\"ada\"}", "/user-posts/eve/p"),
      (["user-posts/ada/gone"], "{\"uid\":\"ada\"}", "is not in /posts"),
      (["post-comments/gone/c2"], "{\"uid\":\"bob\"}", "has no post"),
      (["user-comments/bob/c"], "null", "is not in /user-comments"),
      (["user-comments/bob/c"], "\"q\"", "is not in /user-comments"),
      (["post-comments/p/c/uid"], "null", "is not in /user-comments"),
      (["post-comments/p/c/author"], "\"Bob\"", "is not the name of its user"),
      (["post-comments/p/c"], "null", "is not in /post-comments"),
      (["user-comments/bob/c9"], "\"p\"", "is not in /post-comments"),
      (["user-comments/bob/c9"], "7", "is not in /post-comments"),
      (["user-comments/ada/c"], "\"p\"", "/user-comments/ada/c"),
      (["usernames/ada"], "null", "not its own in /usernames"),
      (["usernames/ada"], "\"bob\"", "not its own in /usernames"),
      (["users/ada/username"], "null", "not its own in /usernames"),
      (["users/ada/username"], "\"x.y\"", "not its own in /usernames"),
      (["usernames/eve"], "\"ada\"", "/usernames"),
      (["users/eve/username"], "\"bob\"", "not its own in /usernames"),
    ])
  func `each inconsistency is found`(places: [String], value: String, word: String) throws {
    var root = SocialCheckTests.sound
    for place in places { root.set(json(value), at: try Path(place)) }
    let problems = SocialCheck.problems(in: root)
    #expect(problems.contains { $0.contains(word) }, "\(problems)")
  }

  @Test func `at most the requested number of problems is reported`() throws {
    var root = SocialCheckTests.sound
    for number in 0..<20 { root.set("ada", at: try Path("users/u\(number)/username")) }
    #expect(SocialCheck.problems(in: root, limit: 5).count == 5)
    #expect(SocialCheck.problems(in: root).count == 21)
  }
}
