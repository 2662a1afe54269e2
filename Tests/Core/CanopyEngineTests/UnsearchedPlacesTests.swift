import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// The search for the authorizations that a commit concerns, if they are too many to find at once.
struct UnsearchedPlacesTests {
  private let authorizations = ListenAuthorizations(looksMax: 100)

  private func add(_ ids: Range<Int>, _ paths: [Path], isChecked: Bool = true) {
    let verdict = ReadVerdict(isAllowed: true, paths: paths)
    for id in ids {
      authorizations.add(
        id, ListenAuthorization { _, _ in verdict }, verdict, at: 0, after: 0, isChecked: isChecked
      ) {}
    }
  }

  private func take(
    _ path: String..., of sequence: Int64
  ) throws -> (now: [Int], later: [Int], looks: Int, beginsSearch: Bool) {
    var room = 0
    return authorizations.takeCases(
      concernedBy: try path.map { Assignment(try Path($0), 1) }, of: sequence, at: 0, room: &room)
  }

  private func checked(_ ids: Range<Int>, at sequence: Int64) -> Int {
    authorizations.mayBeUnchecked(at: sequence)
      ? authorizations.checks(of: Array(ids), at: sequence).count : 0
  }

  /// Takes steps of the search, and gives each case that is found its verdict. Returns the cases.
  private func search(_ paths: [Path], after sequence: Int64, steps: Int = .max) -> [Int] {
    var found: [Int] = []
    for _ in 0..<steps {
      switch authorizations.searchNext() {
      case .end: return found
      case .notFound: continue
      case .found(let id):
        found.append(id)
        _ = authorizations.setVerdict(
          ReadVerdict(isAllowed: true, paths: paths), of: id, at: 0, after: sequence, isLast: true)
      }
    }
    return found
  }

  @Test func `up to the bound the cases are found at once, and one more is searched for`() throws {
    let paths = [try Path("a/b")]
    add(0..<100, paths)
    let few = try take("a", of: 1)
    #expect(few.later.count == 100 && few.looks == 100 && !few.beginsSearch)
    for id in few.later {
      _ = authorizations.setVerdict(
        ReadVerdict(isAllowed: true, paths: paths), of: id, at: 0, after: 1, isLast: true)
    }
    add(100..<101, paths)
    let many = try take("a", of: 2)
    #expect(many.now.isEmpty && many.later.isEmpty && many.looks <= 101 && many.beginsSearch)
    #expect(checked(0..<101, at: 1) == 100 && checked(100..<101, at: 1) == 0)
    #expect(checked(0..<101, at: 2) == 101)
    #expect(search(paths, after: 2) == Array(1...101))
    #expect(checked(0..<101, at: 2) == 101 && checked(0..<101, at: 3) == 0)
  }

  @Test func `a commit looks at no more cases, however many there are, and others are not checked`()
    throws
  {
    add(0..<5_000, [try Path("a")])
    for number in 0..<300 { add(5_000 + number..<5_001 + number, [try Path("c/\(number)")]) }
    add(6_000..<6_010, [try Path("b")])
    #expect(try take("a", of: 1).looks <= 101)
    #expect(try take("a", of: 2).looks <= 101)
    #expect(try take("a", of: 3).looks == 0)
    #expect(try take("c", of: 4).looks <= 101)
    #expect(checked(0..<5_300, at: 4) == 5_300 && checked(6_000..<6_010, at: 4) == 0)
    #expect(try take("b", of: 5).later.count == 10)
  }

  @Test func `a commit during the search begins another one, and commits elsewhere do not`() throws
  {
    let paths = [try Path("a")]
    add(0..<200, paths)
    add(200..<250, [try Path("b")])
    #expect(try take("a/x", of: 1).beginsSearch)
    #expect(search(paths, after: 1, steps: 150) == Array(1...150))
    let again = try take("a/x/y", of: 2)
    #expect(again.later.isEmpty && again.looks <= 101 && !again.beginsSearch)
    // Its place is known now.
    #expect(try take("a/x/y", of: 3).looks == 0)
    #expect(try take("b", of: 4).later.count == 50)
    #expect(checked(0..<250, at: 4) == 250)
    #expect(search(paths, after: 4) == Array(151...200) + Array(1...200))
    #expect(checked(0..<200, at: 4) == 200 && checked(0..<200, at: 5) == 0)
    #expect(try take("a/x", of: 5).beginsSearch)
  }

  @Test func `a commit of few cases at a place that is searched for is found at once`() throws {
    add(0..<200, [try Path("a/b")])
    add(200..<210, [try Path("a/c")])
    #expect(try take("a", of: 1).beginsSearch)
    let few = try take("a/c", of: 2)
    #expect(few.later == Array(201...210) && few.looks == 10 && !few.beginsSearch)
    #expect(search([try Path("a/b")], after: 2) == Array(1...210), "there is no second search")
  }

  @Test func `a listener of a group that checks nothing is found at once`() throws {
    add(0..<200, [try Path("a")])
    add(200..<203, [try Path("a/b")], isChecked: false)
    add(203..<204, [try Path("b")], isChecked: false)
    #expect(try take("a", of: 1).now == [201, 202, 203])
    #expect(try take("a/b/c", of: 2).now == [201, 202, 203])
    for id in 200..<203 { authorizations.remove(id) }
    #expect(try take("a", of: 3).now.isEmpty)
  }

  @Test func `a case that leaves during the search does not end it`() throws {
    let paths = [try Path("a")]
    add(0..<200, paths)
    _ = try take("a", of: 1)
    #expect(search(paths, after: 1, steps: 10) == Array(1...10))
    for id in 5..<20 { authorizations.remove(id) }
    authorizations.remove(199)
    #expect(search(paths, after: 1) == Array(21...199))
    for id in 0..<199 { authorizations.remove(id) }
    #expect(authorizations.isIdle && !authorizations.mayBeUnchecked(at: 2))
  }

  @Test func `many locations of a commit count as the branches above them`() throws {
    func places(_ texts: [String]) throws -> UnsearchedPlaces {
      var places = UnsearchedPlaces()
      places.add(try texts.map { try Path($0) }, since: 7)
      return places
    }
    let max = UnsearchedPlaces.notedMax
    let few = try places((0..<max).map { "a/b/\($0)" })
    #expect(try few.contains(Path("a/b/1/x")) && !few.contains(Path("a/b/x")))
    #expect(try few.overlap([Path("x"), Path("a")]) && !few.overlap([Path("a/c"), Path("x")]))
    let many = try places((0...max).map { "a/b/\($0)" })
    #expect(try many.contains(Path("a/b/x")) && !many.contains(Path("a/c")))
    let fanned = try places((0...max).flatMap { ["a/\($0)", "b/\($0)"] })
    #expect(try fanned.contains(Path("a/x")) && !fanned.contains(Path("c")))
    #expect(few.since == 7 && !few.overlap([]))
  }

  @Test func `too many places count as the branches above the deepest ones`() throws {
    var places = UnsearchedPlaces()
    for number in 0...UnsearchedPlaces.placesMax {
      #expect(try !places.contains(Path("users/me/x")))
      let place = try Path("users/me/\(number / 2)/\(number % 2)")
      places.add([place], since: Int64(9 - number % 5))
    }
    #expect(try places.contains(Path("users/me/0/z")) && !places.contains(Path("users/me/x")))
    for number in 0...UnsearchedPlaces.placesMax {
      places.add([try Path("users/me/n\(number)")], since: 9)
    }
    #expect(try places.contains(Path("users/me/x")) && !places.contains(Path("users/you")))
    for number in 0...UnsearchedPlaces.placesMax { places.add([try Path("k\(number)")], since: 9) }
    #expect(try places.contains(Path("other")) && places.since == 5)
  }

  // MARK: Against a model

  private struct Listener {
    var paths: [Path]
    /// The first commit that the verdict depends on, and that is later than the verdict.
    var concernedBy: Int64?
    /// The last commit whose events had no valid verdict when it was made.
    var uncertainUpTo: Int64 = 0
  }

  @Test func `in any order of steps, each commit is checked that a verdict does not know`() throws {
    var random = SeededGenerator(printingSeedFor: "UnsearchedPlacesTests")
    for round in 0..<300 {
      let authorizations = ListenAuthorizations(looksMax: Int.random(in: 0...6, using: &random))
      var listeners: [Int: Listener] = [:]
      var cases: [Int: Int] = [:]
      var (sequence, nextID, waiting, isSearching) = (Int64(0), 0, [Int](), false)
      func randomPath() throws -> Path {
        try Path(
          (0..<Int.random(in: 0...2, using: &random)).map { _ in try Key(random.pick(["a", "b"])) })
      }
      func randomPaths() throws -> [Path] {
        Set(try (0..<Int.random(in: 0...3, using: &random)).map { _ in try randomPath() }).sorted {
          $0.text < $1.text
        }
      }
      func setVerdict(of caseID: Int, isLast: Bool) throws {
        guard let id = cases[caseID], let listener = listeners[id] else { return }
        let paths = random.oneIn(4) ? try randomPaths() : listener.paths
        _ = authorizations.setVerdict(
          ReadVerdict(isAllowed: true, paths: paths), of: caseID, at: 0, after: sequence,
          isLast: isLast)
        listeners[id]?.paths = paths
        listeners[id]?.concernedBy = nil
      }
      func searchOn() throws {
        switch authorizations.searchNext() {
        case .end: isSearching = false
        case .notFound: break
        case .found(let id): try setVerdict(of: id, isLast: true)
        }
      }
      for step in 0..<120 {
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1:
          nextID += 1
          let verdict = ReadVerdict(isAllowed: true, paths: try randomPaths())
          authorizations.add(
            nextID, ListenAuthorization { _, _ in verdict }, verdict, at: 0, after: 0,
            isChecked: true
          ) {}
          listeners[nextID] = Listener(paths: verdict.paths)
          cases[nextID] = nextID
        case 2:
          guard let id = listeners.keys.sorted().randomElement(using: &random) else { continue }
          authorizations.remove(id)
          listeners[id] = nil
        case 3, 4, 5:
          let changed = try (0...Int.random(in: 0...2, using: &random)).map { _ in try randomPath()
          }
          .sorted { $0.text < $1.text }
          sequence += 1
          for (id, listener) in listeners
          where listener.paths.contains(where: { path in
            changed.contains { $0.hasPrefix(path) || path.hasPrefix($0) }
          }) {
            listeners[id]?.concernedBy = listener.concernedBy ?? sequence
          }
          var room = Int.random(in: 0...2, using: &random)
          let found = authorizations.takeCases(
            concernedBy: changed.map { Assignment($0, 1) }, of: sequence, at: 0, room: &room)
          for id in found.now { try setVerdict(of: id, isLast: false) }
          waiting += found.later
          #expect(!found.beginsSearch || !isSearching)
          if found.beginsSearch { isSearching = true }
        case 6 where !waiting.isEmpty: try setVerdict(of: waiting.removeFirst(), isLast: true)
        default: if isSearching { try searchOn() }
        }
        for (id, listener) in listeners {
          if listener.concernedBy != nil { listeners[id]?.uncertainUpTo = sequence }
          let last = listeners[id]?.uncertainUpTo ?? 0
          #expect(
            last == 0
              || authorizations.mayBeUnchecked(at: last)
                && authorizations.checks(of: [id], at: last).count == 1,
            "round \(round), step \(step), listener \(id), commit \(last)")
        }
      }
      for id in waiting { try setVerdict(of: id, isLast: true) }
      while isSearching { try searchOn() }
      #expect(!authorizations.mayBeUnchecked(at: sequence + 1), "round \(round)")
      #expect(listeners.values.allSatisfy { $0.concernedBy == nil }, "round \(round)")
    }
  }
}
