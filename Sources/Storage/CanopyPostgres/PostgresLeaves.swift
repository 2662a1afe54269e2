#if PostgreSQL
  internal import CanopyRows
  internal import CanopyTree

  /// The rows of `leaves` in an open transaction.
  ///
  /// Changes wait for the next query and share its round trip. `prepare` reads the rows for many locations in one
  /// query.
  struct PostgresLeaves: LeafRows {
    private let link: Link
    private let namespace: [UInt8]
    /// The checksum of the row at each location that was read or changed; nil if there is no row.
    private var known: [[UInt8]: Checksum?] = [:]
    /// The first row at or after some texts.
    private var firstRows: [[UInt8]: [UInt8]?] = [:]
    /// The changes that wait: the new value of each row; nil to remove it.
    private var changes: [[UInt8]: (value: [UInt8], checksum: Checksum)?] = [:]
    /// The number and the sum of the rows.
    private(set) var sums: LeafSums

    init(_ link: Link, _ namespace: [UInt8], _ sums: LeafSums) {
      self.link = link
      self.namespace = namespace
      self.sums = sums
    }

    /// The first bytes of a path, as the index has them.
    private static let prefix = "substring(path FROM 1 FOR \(PostgresSchema.pathIndexBytes))"

    private static func prefix(_ parameter: String) -> String {
      "substring(\(parameter) FROM 1 FOR \(PostgresSchema.pathIndexBytes))"
    }

    /// Reads the rows at and above the locations, and the first row at or after each.
    mutating func prepare(_ locations: ArraySlice<Location>) throws {
      var texts: Set<[UInt8]> = []
      for location in locations {
        texts.insert(Array(location.text.utf8))
        for count in 0...location.path.count {
          texts.insert(Array(location.path.prefix(count).text.utf8))
        }
      }
      let unknown = texts.filter { known[$0] == nil }
      let own = locations.map { Array($0.path.text.utf8) }
      let results = try run([
        Query(
          """
          SELECT path, checksum FROM canopy.leaves
          WHERE namespace = $1 AND \(PostgresLeaves.prefix) = ANY($2::bytea[])
          """, .bytes(namespace),
          .byteArrays(
            Array(Set(unknown.map { Array($0.prefix(PostgresSchema.pathIndexBytes)) })))),
        Query(
          """
          SELECT own.path, (
            SELECT path FROM canopy.leaves WHERE namespace = $1
              AND \(PostgresLeaves.prefix) >= \(PostgresLeaves.prefix("own.path"))
              AND path >= own.path
            ORDER BY namespace, \(Loading.pathOrder) LIMIT 1)
          FROM unnest($2::bytea[]) AS own(path)
          """, .bytes(namespace), .byteArrays(own)),
      ])
      for path in unknown { known[path] = .some(nil) }
      for row in 0..<results[0].count {
        guard let path = results[0].bytes(row, 0).map({ Array($0) }), unknown.contains(path) else {
          continue
        }
        known[path] = Checksum(stored: try results[0].int(row, 1))
      }
      for row in 0..<results[1].count {
        guard let path = results[1].bytes(row, 0) else { continue }
        firstRows[Array(path)] = .some(results[1].bytes(row, 1).map { Array($0) })
      }
    }

    mutating func insert(_ location: Location, _ node: Node) throws -> Int {
      write(Array(location.text.utf8), node)
    }

    mutating func put(_ location: Location, _ node: Node) throws -> Int {
      let path = Array(location.text.utf8)
      if let old = try checksum(path) {
        sums.subtract(old)
      } else if node.isAbsent {
        return 0
      }
      guard !node.isAbsent else {
        remove(path)
        return 0
      }
      return write(path, node)
    }

    mutating func contains(_ location: Location) throws -> Bool {
      try checksum(Array(location.text.utf8)) != nil
    }

    mutating func node(_ path: Path) throws -> Node {
      let rows = try run([
        Query(
          """
          SELECT path, value, checksum FROM canopy.leaves
          WHERE namespace = $1 AND \(PostgresLeaves.prefix) = \(PostgresLeaves.prefix("$2::bytea"))
            AND path = $2
          """, .bytes(namespace), .text(path.text))
      ])[0]
      guard let stored = rows.bytes(0, 0), let value = rows.bytes(0, 1) else { return .absent }
      guard Checksum.leaf(stored, value).stored == (try rows.int(0, 2)) else {
        throw PostgresError.altered("the row /\(path.text) of the checkpoint")
      }
      do throws(TreeError) {
        return try WriteValue(json: value, limits: .none).node
      } catch {
        throw PostgresError.unreadable("the row /\(path.text) of the checkpoint", error.sentence)
      }
    }

    mutating func firstRow(from text: String) throws -> [UInt8]? {
      let bytes = Array(text.utf8)
      if let found = firstRows[bytes] { return found }
      let rows = try run([
        Query(
          """
          SELECT path FROM canopy.leaves WHERE namespace = $1
            AND \(PostgresLeaves.prefix) >= \(PostgresLeaves.prefix("$2::bytea")) AND path >= $2
          ORDER BY namespace, \(Loading.pathOrder) LIMIT 1
          """, .bytes(namespace), .bytes(bytes))
      ])[0]
      return rows.bytes(0, 0).map { Array($0) }
    }

    mutating func isEmpty(_ rows: RowsBelow) throws -> Bool {
      try run([
        Query(
          "SELECT 1 FROM canopy.leaves WHERE \(PostgresLeaves.condition(rows)) LIMIT 1",
          [.bytes(namespace)] + PostgresLeaves.parameters(rows))
      ])[0].isEmpty
    }

    mutating func clear(_ below: RowsBelow, _ budget: inout StepBudget) throws -> Bool {
      let limit = 500
      while true {
        let rows = try run([
          Query(
            """
            SELECT path, checksum, octet_length(value)::bigint FROM canopy.leaves
            WHERE \(PostgresLeaves.condition(below))
            ORDER BY namespace, \(Loading.pathOrder) LIMIT \(limit)
            """, [.bytes(namespace)] + PostgresLeaves.parameters(below))
        ])[0]
        for row in 0..<rows.count {
          if budget.isSpent { return false }
          guard let path = rows.bytes(row, 0) else { continue }
          sums.subtract(Checksum(stored: try rows.int(row, 1)))
          remove(Array(path))
          budget.spend(bytes: path.count + Int(clamping: try rows.int(row, 2)))
        }
        if rows.count < limit { return true }
      }
    }

    /// Returns the queries of the changes that wait.
    mutating func takeChanges() -> [Query] {
      guard !changes.isEmpty else { return [] }
      defer { changes = [:] }
      let paths = Array(changes.keys)
      var queries = [
        Query(
          """
          DELETE FROM canopy.leaves
          WHERE namespace = $1 AND \(PostgresLeaves.prefix) = ANY($2::bytea[])
            AND path = ANY($3::bytea[])
          """, .bytes(namespace),
          .byteArrays(Array(Set(paths.map { Array($0.prefix(PostgresSchema.pathIndexBytes)) }))),
          .byteArrays(paths))
      ]
      let new = changes.compactMap { change in change.value.map { (change.key, $0) } }
      if !new.isEmpty {
        queries.append(
          Query(
            """
            INSERT INTO canopy.leaves(namespace, path, value, checksum)
            SELECT $1, rows.* FROM unnest($2::bytea[], $3::bytea[], $4::bigint[]) AS rows
            """, .bytes(namespace), .byteArrays(new.map(\.0)), .byteArrays(new.map(\.1.value)),
            .ints(new.map(\.1.checksum.stored))))
      }
      return queries
    }

    private static func condition(_ rows: RowsBelow) -> String {
      let from = "namespace = $1 AND \(prefix) >= \(prefix("$2::bytea")) AND path >= $2"
      guard rows.to != nil else { return from }
      return from + " AND \(prefix) <= \(prefix("$3::bytea")) AND path < $3"
    }

    private static func parameters(_ rows: RowsBelow) -> [Parameter] {
      [.text(rows.from)] + (rows.to.map { [.text($0)] } ?? [])
    }

    /// Runs queries after the changes that wait, in one round trip.
    private mutating func run(_ queries: [Query]) throws -> [Rows] {
      let changes = takeChanges()
      return Array(try link.run(changes + queries).dropFirst(changes.count))
    }

    private mutating func checksum(_ path: [UInt8]) throws -> Checksum? {
      if let checksum = known[path] { return checksum }
      let rows = try run([
        Query(
          """
          SELECT checksum FROM canopy.leaves
          WHERE namespace = $1 AND \(PostgresLeaves.prefix) = \(PostgresLeaves.prefix("$2::bytea"))
            AND path = $2
          """, .bytes(namespace), .bytes(path))
      ])[0]
      let checksum = rows.isEmpty ? nil : Checksum(stored: try rows.int(0, 0))
      known[path] = .some(checksum)
      return checksum
    }

    private mutating func remove(_ path: [UInt8]) {
      known[path] = .some(nil)
      changes[path] = .some(nil)
      // A row that is split leads to new rows before these.
      firstRows = [:]
    }

    private mutating func write(_ path: [UInt8], _ node: Node) -> Int {
      var output = JSONOutput(capacity: 1024)
      output.append(node, style: .export)
      return path.withUnsafeBytes { bytes in
        output.withBytes { value in
          let checksum = Checksum.leaf(bytes, value)
          known[path] = checksum
          changes[path] = (Array(value), checksum)
          sums.add(checksum)
          return path.count + value.count
        }
      }
    }
  }
#endif
