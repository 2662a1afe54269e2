import CanopyTesting
import Foundation
import Testing

/// The demo community: its file is consistent, and all of it loads.
struct SeedTests {
  static let path = "Seeds/demo.json"

  struct Community: Decodable {
    struct Person: Decodable {
      var username, email, password: String
      var joined: Date
    }
    struct Post: Decodable {
      var by: String
      var at: Date
      var title, body: String
      var stars: [Star]
      var comments: [Comment]
    }
    struct Star: Decodable {
      var by: String
      var at: Date
    }
    struct Comment: Decodable {
      var by: String
      var at: Date
      var text: String
    }
    var people: [Person]
    var posts: [Post]
  }

  let community: Community

  init() throws {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .iso8601
    community = try decoder.decode(Community.self, from: Data(Repository.text(Self.path).utf8))
  }

  private var comments: Int { community.posts.reduce(0) { $0 + $1.comments.count } }
  private var stars: Int { community.posts.reduce(0) { $0 + $1.stars.count } }

  @Test func `the community has enough people, posts, comments and stars for a demonstration`() {
    #expect(community.people.count == 10)
    #expect(community.posts.count >= 60)
    #expect(comments >= 200)
    #expect(stars >= 400)
  }

  @Test func `each event is after its author joined, and after the post that it belongs to`() throws
  {
    let joined = Dictionary(uniqueKeysWithValues: community.people.map { ($0.username, $0.joined) })
    func check(_ name: String, at time: Date, not before: Date? = nil, _ what: String) throws {
      let joined = try #require(joined[name], "\(what): \(name) has no account")
      #expect(time > joined, "\(what): \(name) has not joined")
      if let before { #expect(time > before, "\(what) is older than the post") }
    }
    for post in community.posts {
      try check(post.by, at: post.at, post.title)
      for comment in post.comments {
        try check(comment.by, at: comment.at, not: post.at, "a comment on \(post.title)")
      }
      for star in post.stars {
        try check(star.by, at: star.at, not: post.at, "a star on \(post.title)")
      }
    }
  }

  @Test func `people, posts, and the comments on each post are in the order of time`() {
    #expect(community.people.map(\.joined) == community.people.map(\.joined).sorted())
    #expect(community.posts.map(\.at) == community.posts.map(\.at).sorted())
    for post in community.posts {
      #expect(post.comments.map(\.at) == post.comments.map(\.at).sorted(), "on \(post.title)")
    }
  }

  @Test func `each person stars a post at most once, and names and addresses are unique`() {
    for post in community.posts {
      #expect(Set(post.stars.map(\.by)).count == post.stars.count, "on \(post.title)")
    }
    #expect(Set(community.people.map { $0.username.lowercased() }).count == community.people.count)
    #expect(Set(community.people.map { $0.email.lowercased() }).count == community.people.count)
  }

  @Test func `addresses are in domains reserved for examples`() {
    for person in community.people {
      #expect(person.email.contains(/@example\.(com|net|org)$/), "\(person.email)")
    }
  }

  @Test func `each person is on one line, as Scripts/demo expects`() throws {
    let lines = try Repository.text(Self.path).split(separator: "\n")
    let people = lines.compactMap { line in
      line.firstMatch(
        of: /"username": "([^"\\]*)", "email": "([^"\\]*)", "password": "([^"\\]*)"/
      ).map { [String($0.1), String($0.2), String($0.3)] }
    }
    #expect(people == community.people.map { [$0.username, $0.email, $0.password] })
    for value in people.joined() { #expect(!value.contains(" "), "\(value) is no bare word") }
  }

  @Test(.timeLimit(.minutes(20)))
  func `all of it loads, and verify finds no problem`() async throws {
    let folder = try TemporaryFolder()
    let data = folder.file("data")
    let seed = try await Program.run(
      Program.canopy, ["seed", "--data", data, Repository.root.appending(path: Self.path).path])
    #expect(seed.status == 0)
    #expect(
      seed.errors == """
        seeded \(community.people.count) people, \(community.posts.count) posts, \(comments) comments, \
        \(stars) stars

        """)
    let verify = try await Program.run(Program.canopy, ["verify", "--data", data])
    #expect(verify.status == 0)
    #expect(verify.output.contains("\(community.posts.count) posts, nothing wrong"))
  }
}
