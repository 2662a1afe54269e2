/// Placeholders for values that the server puts in when it applies a write.
public enum ServerValue {
  /// The milliseconds since 1970 by the server's clock at which it applies the write. Until then, local
  /// events have this machine's clock corrected by what is known of the server's.
  public static func timestamp() -> [AnyHashable: Any] {
    [".sv": "timestamp"]
  }

  /// The number that stands there when the write is applied, plus `delta`; `delta`, when no number
  /// stands there.
  public static func increment(_ delta: NSNumber) -> [AnyHashable: Any] {
    [".sv": ["increment": delta]]
  }
}
