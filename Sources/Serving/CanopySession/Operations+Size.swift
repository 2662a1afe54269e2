public import CanopyEngine
public import CanopyTree
internal import CanopyWire

extension Operations {
  /// Whether a write is larger than a bound: the values that it writes, and the present values that it replaces.
  ///
  /// A value that the caller may not read does not count, so the answer reveals nothing about it. The present values may
  /// change before the write is made, so this is an estimate. The cost is O(bytesMax); more than
  /// `Limits.wholeReplyBytesMax` is measured beside the caller's thread.
  ///
  /// - Parameters:
  ///   - bytesMax: the bound, in bytes of JSON.
  ///   - turns: the connection and its network, which share their turns of long work.
  /// - Throws: `WireError` if there is no thread; `CancellationError` if the task is cancelled before its turn.
  public func exceeds(
    _ bytesMax: Int, writing values: [Node], at places: [Location], as identity: Identity,
    turns: TurnGroup?
  ) async throws -> Bool {
    let root = engine.root
    var nodes = values
    for place in places where !place.isPriority {
      do throws(WireError) { try checkRead(place.path, .all, in: root, as: identity) } catch {
        continue
      }
      nodes.append(root.at(place.path))
    }
    if Operations.fit(nodes, bytes: min(bytesMax, limits.wholeReplyBytesMax)) { return false }
    return try await beside(turns) { [nodes] in !Operations.fit(nodes, bytes: bytesMax) }
  }

  private static func fit(_ nodes: [Node], bytes: Int) -> Bool {
    var budget = bytes
    return nodes.allSatisfy { $0.fits(budget: &budget) }
  }
}
