import CanopyAccounts
import CanopyEngine
import CanopySocial
import CanopyTree
import Foundation

/// A community for demonstrations: accounts, posts, comments and stars, each with its time.
struct Fixture: Sendable {
  struct Counts: Sendable {
    var people = 0
    var posts = 0
    var comments = 0
    var stars = 0
  }

  private enum Act: Sendable {
    case join(email: String, password: String)
    case post(index: Int, title: String, body: String)
    case comment(post: Int, text: String)
    case star(post: Int)
  }

  private struct Event: Sendable {
    var at: Int64
    var by: String
    var act: Act
  }

  private var events: [Event] = []

  /// Reads a fixture.
  ///
  /// - Throws: `Failure`, which names the invalid entry.
  init(_ json: JSONValue) throws {
    for (i, person) in try Fixture.list(json, "people", "the fixture").enumerated() {
      let place = "person \(i + 1)"
      events.append(
        Event(
          at: try Fixture.time(person, "joined", place),
          by: try Fixture.text(person, "username", place),
          act: .join(
            email: try Fixture.text(person, "email", place),
            password: try Fixture.text(person, "password", place))))
    }
    for (i, post) in try Fixture.list(json, "posts", "the fixture").enumerated() {
      try addPost(post, i)
    }
    // Events of the same time keep their order: first the accounts, then each post before its comments and stars.
    let order = events.indices.sorted {
      events[$0].at != events[$1].at ? events[$0].at < events[$1].at : $0 < $1
    }
    events = order.map { events[$0] }
  }

  private mutating func addPost(_ post: JSONValue, _ index: Int) throws {
    let place = "post \(index + 1)"
    func event(_ json: JSONValue, _ place: String, _ act: Act) throws -> Event {
      Event(
        at: try Fixture.time(json, "at", place), by: try Fixture.text(json, "by", place), act: act)
    }
    let title = try Fixture.text(post, "title", place)
    let body = try Fixture.text(post, "body", place)
    events.append(try event(post, place, .post(index: index, title: title, body: body)))
    for comment in try Fixture.list(post, "comments", place) {
      let text = try Fixture.text(comment, "text", "a comment on " + place)
      events.append(try event(comment, "a comment on " + place, .comment(post: index, text: text)))
    }
    for star in try Fixture.list(post, "stars", place) {
      events.append(try event(star, "a star on " + place, .star(post: index)))
    }
  }

  private static func list(
    _ json: JSONValue, _ name: String, _ place: String
  ) throws -> [JSONValue] {
    guard let list = json[name]?.elements else {
      throw Failure("\(place) has no list named \(name); add it to the fixture")
    }
    return list
  }

  private static func text(_ json: JSONValue, _ name: String, _ place: String) throws -> String {
    guard let text = json[name]?.string else {
      throw Failure("\(place) has no text named \(name); add it to the fixture")
    }
    return text
  }

  private static func time(_ json: JSONValue, _ name: String, _ place: String) throws -> Int64 {
    let text = try text(json, name, place)
    guard let date = try? Date(text, strategy: .iso8601) else {
      throw Failure("\(place) has an invalid time: \(text); write it as 2026-01-31T12:00:00Z")
    }
    return Int64(date.timeIntervalSince1970 * 1000)
  }

  /// Performs all events in the order of their times, with the clock set to the time of each.
  func load(into parts: Composition, clock: FixtureClock) async throws -> Counts {
    var counts = Counts()
    var uids: [String: Key] = [:]
    var posts: [Int: Key] = [:]
    for event in events {
      clock.set(event.at)
      if case .join(let email, let password) = event.act {
        let account = try await parts.accounts.createAccount(
          email: email, password: password, username: event.by
        ) { uid in
          try Texts.checkUsername(event.by)
          _ = try await parts.engine.transact {
            try Users.claim(event.by, for: Key(uid), in: &$0)
          }
        }
        uids[event.by] = try Key(account.uid)
        counts.people += 1
        continue
      }
      guard let uid = uids[event.by] else {
        throw Failure("\(event.by) has no account at the time of an event; add one to people")
      }
      switch event.act {
      case .join: break
      case .post(let index, let title, let body):
        try Texts.checkPost(title: title, body: body)
        posts[index] = try await parts.engine.transact {
          try Posts.create(by: uid, title: title, body: body, in: &$0)
        }.result
        counts.posts += 1
      case .comment(let post, let text):
        guard let id = posts[post] else {
          throw Failure("a comment on post \(post + 1) is older than the post")
        }
        try Texts.checkComment(text)
        _ = try await parts.engine.transact {
          try Comments.create(on: id, by: uid, text: text, in: &$0)
        }
        counts.comments += 1
      case .star(let post):
        guard let id = posts[post] else {
          throw Failure("a star on post \(post + 1) is older than the post")
        }
        let star = try await parts.engine.transact {
          try Posts.toggleStar(id, by: uid, in: &$0)
        }.result
        guard star.isStarred else {
          throw Failure("\(event.by) stars post \(post + 1) twice; remove one star")
        }
        counts.stars += 1
      }
    }
    return counts
  }
}
