public import CanopyEngine
public import CanopyTree

extension Proposal {
  /// Returns the next new key that `isFree` accepts.
  ///
  /// While the clock is behind the greatest key, each new key is the last one plus one. So a client can predict it, and
  /// may have written to its location already.
  ///
  /// - Complexity: O(skipped keys). No key is skipped twice, because later keys sort after it.
  public mutating func nextKey(where isFree: (Key) -> Bool) -> Key {
    var key = nextKey()
    while !isFree(key) { key = nextKey() }
    return key
  }
}
