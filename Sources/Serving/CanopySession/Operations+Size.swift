public import CanopyEngine
public import CanopyTree
internal import CanopyWire

extension Operations {
  /// Whether a write is larger than a bound: the values that it writes, and the present values that it replaces.
  ///
  /// A value that the caller may not read does not count, so the answer reveals nothing about it. The present values may
  /// change before the write is made, so this is an estimate. The rules and the sizes may take long, so both are found
  /// beside the caller's thread: O(bytesMax), and a read of each location for the rules, `sizedPlacesMax` locations in
  /// each turn.
  ///
  /// - Parameters:
  ///   - bytesMax: the bound, in bytes of JSON.
  ///   - turns: the connection and its network, which share their turns of long work.
  /// - Throws: `WireError` if there is no thread; `CancellationError` if the task is cancelled before its turn.
  public func exceeds(
    _ bytesMax: Int, writing values: [Node], at places: [Location], as identity: Identity,
    turns: TurnGroup?
  ) async throws -> Bool {
    var left = bytesMax
    var values = values
    var places = places.filter { !$0.isPriority }[...]
    repeat {
      let next = places.prefix(Operations.sizedPlacesMax)
      places = places.dropFirst(next.count)
      let rest = try await beside(turns) { [self, values, left] in
        room(left, with: values, at: next, as: identity)
      }
      guard let rest else { return true }
      (left, values) = (rest, [])
    } while !places.isEmpty
    return false
  }

  /// The locations whose rules are evaluated in one turn.
  static let sizedPlacesMax = 16

  /// Returns the rest of a number of bytes after values, and the present values of locations that the caller may read;
  /// nil if those are more.
  private func room(
    _ bytes: Int, with values: [Node], at places: ArraySlice<Location>, as identity: Identity
  ) -> Int? {
    let root = engine.root
    var left = bytes
    guard values.allSatisfy({ $0.fits(budget: &left) }) else { return nil }
    for place in places {
      do throws(WireError) { try checkRead(place.path, .all, in: root, as: identity) } catch {
        continue
      }
      guard root.at(place.path).fits(budget: &left) else { return nil }
    }
    return left
  }
}
