public import CanopyTree

extension UnfinishedWork {
  /// The mark of one renaming, one removed post or one deleted user.
  public struct Mark: Equatable, Sendable {
    /// One of `Layout.marks`.
    let place: Key
    let key: Key
    /// The users whose accounts must be deleted before the step: that of the mark, and the next ones with such a mark.
    public let accountsToDelete: [Key]
  }

  /// The next part of the work.
  public enum Turn: Sendable {
    /// A step of a mark, to be decided by `step`.
    case step(Mark)
    /// A step of a search in which no commit is made, to be followed by `Turns.note`.
    case look(StarSearch)
    /// A commit of a search, to be followed by `Turns.note`.
    case write(StarSearch)
  }

  /// The turns of the marks. Each mark gets a step before another gets its second one, so the work of one user delays that
  /// of others only in proportion to the number of users.
  ///
  /// The search for the stars of deleted users and the other steps take turns as well. A search is for all users whose
  /// posts and comments are removed when it begins. So the stars of a user are removed after at most two searches, however
  /// many other users are deleted.
  ///
  /// The turns are not stored. After a restart they begin again.
  public struct Turns: Sendable {
    /// The maximum number of marks in `/erasures` that one call examines. With more marks the search goes on with the next
    /// call.
    static let examinedMax = 1_000

    /// The place and the key of the mark that was examined last.
    private var last: (place: Int, key: Key)?
    /// The search that has begun; nil for none.
    private var search: StarSearch?
    /// Whether the last turn was that of a mark.
    private var isTurnOfSearch = false

    /// Begins with the first mark.
    public init() {}

    /// Returns the next part of the work; nil if a tree has no unfinished work.
    ///
    /// - Complexity: O(`examinedMax` + log n), and O(marks) at the beginning of a search.
    public mutating func next(in root: Node) -> Turn? {
      if isTurnOfSearch, let turn = nextOfSearch(in: root) {
        isTurnOfSearch = false
        return turn
      }
      guard let mark = nextMark(in: root) else { return nextOfSearch(in: root) }
      isTurnOfSearch = true
      return .step(mark)
    }

    /// Replaces the search of the last turn by the search after it.
    public mutating func note(_ search: StarSearch) {
      self.search = search
    }

    private mutating func nextOfSearch(in root: Node) -> Turn? {
      if search?.next == nil { search = StarSearch(in: root) }
      guard let search else { return nil }
      return search.next == .look ? .look(search) : .write(search)
    }

    /// Returns the next mark that has a step; nil if none was found.
    mutating func nextMark(in root: Node) -> Mark? {
      var left = Self.examinedMax
      let begin = last
      // The place of the last mark comes first and last: the marks after it, and those before it.
      for offset in 0...Layout.marks.count where left > 0 {
        let index = ((begin?.place ?? 0) + offset) % Layout.marks.count
        let place = Layout.marks[index]
        let limit = place == Layout.erasures ? left : 1
        let after = offset == 0 ? begin?.key : nil
        let marks = root.child(place).children(after: after, limit: limit)
        for (position, (key, node)) in marks.enumerated() {
          last = (index, key)
          left -= 1
          guard place == Layout.erasures else {
            return Mark(place: place, key: key, accountsToDelete: [])
          }
          switch Erasure(node) {
          case .stars: continue
          case .account:
            // The marks before this one as well: those behind it may never end.
            let first = root.child(place).children(after: nil, limit: Self.examinedMax)
            let all = marks[position...] + first.prefix { $0.key < key }
            let accounts = all.lazy.filter { Erasure($0.node) == .account }
            return Mark(
              place: place, key: key,
              accountsToDelete: accounts.prefix(Erasure.accountsMax).map { $0.key })
          default: return Mark(place: place, key: key, accountsToDelete: [])
          }
        }
      }
      return nil
    }
  }
}
