import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

/// Random raw writes of two users at and around all paths of the blog: complete writes, parts of them, and
/// several of both in one request. After each accepted write all parts of the tree agree.
@Suite(.timeLimit(.minutes(20))) struct RandomRawWriteTests {
  private let steps = 500

  @Test func `no sequence of raw writes of users makes parts of the tree disagree`() async throws {
    var random = SeededGenerator(printingSeedFor: "RandomRawWriteTests")
    let seed = random.next()
    try await withServer(.inProcess) { server in
      var random = SeededGenerator(seed: seed)
      let people = [
        try await Person(server, "ada"),
        try await Person(server, "bob"),
      ]
      let ids = ["p", "q", "r"].map { RawWriteTests.id($0) } + ["zzz"]
      let attacker = Attacker(people: people, ids: ids)
      var accepted = 0
      for _ in 0..<steps {
        if random.oneIn(20) { server.parts.clock.advance(1) }
        let person = random.pick(people)
        let line = attacker.line(of: person, in: server.root, &random)
        let before = server.root
        let reply = try await person.client.request(line)
        let problems = SocialCheck.problems(in: server.root)
        #expect(problems == [], "\(line) \(reply)")
        if reply.first == "+" {
          accepted += 1
        } else {
          #expect(server.root == before, "\(line)")
        }
        guard problems.isEmpty else { return }
      }
      #expect(server.root.brokenInvariant() == nil)
      #expect(accepted > steps / 20, "\(accepted) were accepted")
    }
  }

  private struct Attacker {
    let people: [Person]
    let ids: [String]

    /// A request of one or several random changes.
    func line(
      of person: Person, in root: Node, _ random: inout SeededGenerator
    ) -> String {
      let id = random.pick(ids)
      switch Int.random(in: 0..<12, using: &random) {
      case 0: return "POST title body"
      case 1: return "STAR \(id)"
      case 2: return "COMMENT \(id) text"
      case 3 where random.oneIn(4): return "DELETE \(id)"
      case 4 where random.oneIn(4): return "RENAME \(person.name)"
      case 5...7:
        let (path, value) = change(by: person, in: root, &random)
        return value == "null" && random.oneIn(2) ? "REMOVE /\(path)" : "SET /\(path) \(value)"
      default:
        var changes: [String: String] = [:]
        for _ in 0...Int.random(in: 0..<4, using: &random) {
          let (path, value) = change(by: person, in: root, &random)
          changes[path] = value
          // Often makes the same change to the other copy.
          if random.oneIn(2), let other = other(path, in: root) {
            changes[other] = random.oneIn(8) ? "\"different\"" : value
          }
        }
        let members = changes.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }
        return "UPDATE / {\(members.joined(separator: ","))}"
      }
    }

    private func other(_ path: String, in root: Node) -> String? {
      let keys = path.split(separator: "/")
      if keys[0] == "posts", keys.count > 1, let id = try? Key(keys[1]) {
        let uid = root.child("posts").child(id).child("uid").stringValue
        return (["user-posts", uid ?? people[0].uid] + keys.dropFirst().map(String.init))
          .joined(separator: "/")
      }
      guard keys[0] == "user-posts", keys.count > 2 else { return nil }
      return (["posts"] + keys.dropFirst(2).map(String.init)).joined(separator: "/")
    }

    private func change(
      by person: Person, in root: Node, _ random: inout SeededGenerator
    ) -> (path: String, value: String) {
      let id = random.pick(ids)
      let owner = random.pick(people)
      let comment = RawWriteTests.id(random.pick(["c", "d"]))
      let post =
        random.oneIn(2)
        ? "posts/\(id)" : "user-posts/\(random.oneIn(4) ? owner.uid : person.uid)/\(id)"
      let old = (try? Path(post)).map { root.at($0) } ?? .absent
      switch Int.random(in: 0..<16, using: &random) {
      case 0, 1: return (post, old.isAbsent ? person.post(extra(person, &random)) : json(old))
      case 2: return (post, person.post(extra(person, &random)))
      case 3: return (post, "null")
      case 4, 5:
        // The transaction of the published sample.
        var new = old
        guard !old.isAbsent, let star = try? Path("stars/\(person.uid)"),
          let starCount = try? Path("starCount")
        else { return (post, person.post()) }
        let isStarred = !old.at(star).isAbsent
        new.set(isStarred ? .absent : true, at: star)
        let count = (old.child("starCount").integerValue ?? 0) + (isStarred ? -1 : 1)
        new.set(Node(count), at: starCount)
        return (post, json(new))
      case 6:
        let field = random.pick([
          "uid", "author", "title", "body", "createdAt", "starCount", "commentCount", "stars",
          "stars/\(owner.uid)", ".priority", "title/.priority", "title/deeper", "extra",
        ])
        let value = random.pick([
          "null", "1", "0", "1.0", "\"text\"", "true", "{\"a\":true}", "{\".sv\":\"timestamp\"}",
          "{\".sv\":{\"increment\":1}}", "{\".sv\":{\"increment\":-1.0}}", "\"\(person.uid)\"",
        ])
        return ("\(post)/\(field)", value)
      case 7: return ("\(post)/title", "\"\(random.pick(["one", "two"]))\"")
      case 8: return ("\(post)/commentCount", "\(Int.random(in: 0..<4, using: &random))")
      case 9, 10: return ("post-comments/\(id)/\(comment)", person.comment())
      case 11: return ("post-comments/\(id)/\(comment)", "null")
      case 12:
        let field = random.pick(["uid", "author", "text", "createdAt", "extra", ".priority"])
        return (
          "post-comments/\(id)/\(comment)/\(field)", random.pick(["null", "1", "\"text\""])
        )
      case 13:
        return (
          "user-comments/\(owner.uid)/\(comment)", random.pick(["null", "\"\(id)\"", "1"])
        )
      case 14:
        return random.pick([
          ("posts", "null"), ("user-posts/\(person.uid)", "null"), ("post-comments/\(id)", "null"),
          ("user-comments/\(person.uid)", "null"), ("removed-posts/\(id)", "null"),
          ("renames/\(person.uid)", "{\"stage\":\"posts\"}"), ("deletions/\(id)", "true"),
        ])
      default:
        let name = random.pick(["ada", "bob", "Ada", "cid"])
        return random.pick([
          ("users/\(person.uid)/username", "\"\(name)\""),
          ("users/\(person.uid)", "{\"username\":\"\(name)\"}"), ("usernames/\(name)", "null"),
          ("usernames/\(name)", "\"\(person.uid)\""),
        ])
      }
    }

    private func extra(
      _ person: Person, _ random: inout SeededGenerator
    ) -> String {
      random.pick([
        "", "", #","starCount":0"#, #","starCount":1,"stars":{"\#(person.uid)":true}"#,
        #","starCount":1.0,"stars":{"\#(person.uid)":true}"#, #","commentCount":1"#,
        #","createdAt":{".sv":"timestamp"}"#, #","starCount":0.0,"commentCount":0"#,
      ])
    }

    private func json(_ node: Node) -> String {
      var output = JSONOutput()
      output.append(node)
      return output.text
    }
  }
}
