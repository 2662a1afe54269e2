import CanopyTree
import Testing

@testable import CanopyEngine

/// The authorizations that the writer looks at when it finds those that a commit concerns.
struct ConcernedCasesTests {
  private let authorizations = ListenAuthorizations()

  /// Adds listeners with authorizations of their own, whose verdicts depend on some places.
  private func add(_ ids: Range<Int>, _ paths: [Path], isChecked: Bool = true) {
    let verdict = ReadVerdict(isAllowed: true, paths: paths)
    for id in ids {
      authorizations.add(
        id, ListenAuthorization { _, _ in verdict }, verdict, at: 0, after: 0, isChecked: isChecked
      ) {}
    }
  }

  private func assignments(_ count: Int32, at path: String) throws -> [Assignment] {
    let path = try Path(path)
    return (0..<count).map { Assignment(path.child(Key(index: $0)), 1) }
  }

  @Test func `a commit looks at each authorization once, however many locations it has`() throws {
    let (cases, locations) = (500, Int32(300))
    add(0..<cases, [try Path("docs")])
    // Others depend on one of the locations, or on a place beside them.
    for number in 0..<50 {
      add(1_000 + number..<1_001 + number, [try Path("docs/d/k/\(number)/x")])
    }
    add(2_000..<2_100, [try Path("docs/d/other")])
    var room = 0
    let found = authorizations.takeCases(
      concernedBy: try assignments(locations, at: "docs/d/k"), of: 1, at: 0, room: &room)
    #expect(found.looks == cases + 50)
    #expect(found.now.isEmpty && found.later == Array(1...cases + 50))
  }

  @Test func `a commit looks at an authorization once for each place of its verdict`() throws {
    add(0..<100, [.root, try Path("a"), try Path("a/1"), try Path("b")])
    var room = 8
    let found = authorizations.takeCases(
      concernedBy: try assignments(200, at: "a"), of: 1, at: 0, room: &room)
    #expect(found.looks == 300 && found.now.count == 8 && found.later.count == 92 && room == 0)
  }

  @Test func `an authorization that waits is found once more until it has its turn`() throws {
    add(0..<100, [try Path("a")])
    func take(
      _ sequence: Int64
    ) throws -> (now: [Int], later: [Int], looks: Int, beginsSearch: Bool) {
      var room = 0
      return authorizations.takeCases(
        concernedBy: try assignments(10, at: "a"), of: sequence, at: 0, room: &room)
    }
    let first = try take(1)
    #expect(first.later.count == 100)
    #expect(try take(2).looks == 100)
    let third = try take(3)
    #expect(third.looks == 0 && third.later.isEmpty)
    #expect(authorizations.isIdle && authorizations.counts == (100, 100))
    #expect(authorizations.checks(of: Array(0..<100), at: 3).count == 100, "they still wait")
    let verdict = ReadVerdict(isAllowed: true, paths: [try Path("a")])
    for id in first.later.prefix(40) {
      _ = authorizations.setVerdict(verdict, of: id, at: 0, after: 3, isLast: true)
    }
    #expect(!authorizations.isIdle)
    #expect(authorizations.checks(of: Array(0..<100), at: 4).count == 60)
    let fourth = try take(4)
    #expect(fourth.looks == 40 && fourth.later == Array(first.later.prefix(40)))
    // A listener that leaves while its authorization is hidden leaves nothing.
    for id in 0..<100 { authorizations.remove(id) }
    #expect(authorizations.isIdle && authorizations.counts == (0, 0))
    #expect(!authorizations.mayBeUnchecked(at: 5))
  }

  @Test func `a listener of a group that checks nothing joins a hidden authorization and is found`()
    throws
  {
    let path = try Path("a")
    let verdict = ReadVerdict(isAllowed: true, paths: [path])
    let subject = ListenAuthorization.Subject(caller: nil, Listening(path))
    let authorization = ListenAuthorization(subject: subject) { _, _ in verdict }
    var room = 0
    authorizations.add(1, authorization, verdict, at: 0, after: 0, isChecked: true) {}
    for sequence in 1...2 {
      _ = authorizations.takeCases(
        concernedBy: try assignments(1, at: "a"), of: Int64(sequence), at: 0, room: &room)
    }
    #expect(authorizations.isIdle)
    authorizations.add(2, authorization, verdict, at: 0, after: 0, isChecked: false) {}
    let found = authorizations.takeCases(
      concernedBy: try assignments(1, at: "a"), of: 3, at: 0, room: &room)
    #expect(found.now.count == 1 && found.looks == 1)
  }

  @Test func `a verdict that depends on the time is hidden and found again as well`() throws {
    let verdict = ReadVerdict(isAllowed: true, paths: [try Path("a")], dependsOnTime: true)
    authorizations.add(
      1, ListenAuthorization { _, _ in verdict }, verdict, at: 0, after: 0, isChecked: true
    ) {}
    var room = 0
    func take(_ path: String, _ sequence: Int64, at time: Int64) throws -> [Int] {
      let found = authorizations.takeCases(
        concernedBy: try assignments(1, at: path), of: sequence, at: time, room: &room)
      return found.now + found.later
    }
    #expect(try take("b", 1, at: 999).isEmpty)
    let found = try take("b", 2, at: 1_000)
    #expect(found.count == 1)
    #expect(try take("a", 3, at: 1_000).isEmpty)
    #expect(try take("b", 4, at: 5_000).isEmpty && authorizations.isIdle)
    _ = authorizations.setVerdict(verdict, of: found[0], at: 5_000, after: 4, isLast: true)
    #expect(try take("b", 5, at: 5_999).isEmpty)
    #expect(try take("b", 6, at: 6_000) == found)
  }

  private final class Login: Sendable {}

  @Test func `a change that was announced is checked until the cases of its group have a verdict`()
    throws
  {
    let (login, verdict) = (Login(), ReadVerdict(isAllowed: true, paths: [try Path("a")]))
    let group = ObjectIdentifier(login)
    for id in 1...2 {
      authorizations.add(
        id, ListenAuthorization(group: group) { _, _ in verdict }, verdict, at: 0, after: 0,
        isChecked: true
      ) {}
    }
    func checked(at sequence: Int64) -> Int {
      authorizations.mayBeUnchecked(at: sequence)
        ? authorizations.checks(of: [1, 2], at: sequence).count : 0
    }
    authorizations.announceChange(of: group, after: 5)
    authorizations.announceChange(of: group, after: 7)
    #expect(checked(at: 5) == 0 && checked(at: 6) == 2)
    // Another commit lets one of them wait since later, and has its turn first.
    var room = 1
    let found = authorizations.takeCases(
      concernedBy: try assignments(1, at: "a"), of: 8, at: 0, room: &room)
    for id in found.now + found.later {
      _ = authorizations.setVerdict(verdict, of: id, at: 0, after: 8, isLast: true)
    }
    #expect(checked(at: 6) == 2 && checked(at: 9) == 2)
    // A listener with another authorization may still have events from before.
    authorizations.set(
      ListenAuthorization { _, _ in verdict }, of: 2, verdict, at: 0, after: 9)
    #expect(checked(at: 9) == 2 && checked(at: 10) == 1)
    for turn in 1...2 {
      let ids = authorizations.cases(of: group)
      #expect(ids.count == 1 && checked(at: 6) == 2, "turn \(turn)")
      for id in ids {
        authorizations.wait(id, of: group)
        _ = authorizations.setVerdict(verdict, of: id, at: 0, after: 10, isLast: true)
      }
      #expect(checked(at: 11) == 1, "turn \(turn)")
      authorizations.endAnnouncement(of: group)
    }
    #expect(checked(at: 10) == 1 && checked(at: 11) == 0)
    withExtendedLifetime(login) {}
  }

  @Test func `a verdict that was found before a change was announced is old`() {
    let login = Login()
    let before = authorizations.otherChanges
    authorizations.announceChange(of: ObjectIdentifier(login), after: 5)
    #expect(authorizations.otherChanges != before)
  }

  @Test func `a denial in the meantime ends the events at the change that was announced`() throws {
    let (login, verdict) = (Login(), ReadVerdict(isAllowed: true))
    let group = ObjectIdentifier(login)
    authorizations.add(
      1, ListenAuthorization(group: group) { _, _ in verdict }, verdict, at: 0, after: 0,
      isChecked: true
    ) {}
    authorizations.announceChange(of: group, after: 5)
    #expect(authorizations.deny(1, after: 7).ids == [1])
    // The listener gets none of them, even if its authorization allows it.
    #expect(authorizations.checks(of: [1], at: 5).isEmpty)
    for sequence in 6...7 as ClosedRange<Int64> {
      let checks = authorizations.checks(of: [1], at: sequence)
      #expect(checks.count == 1 && checks.allSatisfy { $0.authorization == nil })
    }
    withExtendedLifetime(login) {}
  }
}
