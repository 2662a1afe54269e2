#if PostgreSQL
  internal import CLibpq

  /// The last warning of the server during a query. The server sends one for a commit that did not wait for its
  /// standby.
  final class Notices {
    var warning: String?

    static let receiver: @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?) -> Void = {
      context, result in
      guard let context, let result,
        let code = PQresultErrorField(result, 0x43), let text = PQresultErrorField(result, 0x4D)
      else { return }
      // The states of class 01 are warnings without an error.
      guard String(cString: code).utf8.elementsEqual("01000".utf8) else { return }
      Unmanaged<Notices>.fromOpaque(context).takeUnretainedValue().warning = String(cString: text)
    }
  }
#endif
