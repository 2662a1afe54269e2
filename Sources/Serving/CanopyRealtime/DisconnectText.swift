internal import CanopyRealtimeWire
internal import CanopyTree
internal import CanopyWire

/// On-disconnect writes in the form in which the server keeps them: as text of the line protocol, which the next
/// process reads if this one ends before the connection.
enum DisconnectText {
  static func request(set location: Location, _ value: WriteValue) -> ConnectionRequest {
    if value.node.isAbsent, value.serverValues.isEmpty {
      return .onDisconnect(.set(location, value), text: text("REMOVE", location.text))
    }
    return .onDisconnect(
      .set(location, value), text: text("SET", location.text) { $0.append(value) })
  }

  static func request(update path: Path, _ changes: [Request.Update]) -> ConnectionRequest {
    .onDisconnect(
      .update(path, changes), text: text("UPDATE", path.text) { $0.append(changes) })
  }

  static func request(cancel path: Path) -> ConnectionRequest {
    .onDisconnect(.cancel(path), text: text("CANCEL", path.text))
  }

  private static func text(
    _ verb: StaticString, _ path: String, _ value: ((inout JSONOutput) -> Void)? = nil
  ) -> String {
    var output = JSONOutput()
    output.append(verb)
    output.append(" ")
    output.append(string: path)
    if let value {
      output.append(" ")
      value(&output)
    }
    return output.text
  }
}
