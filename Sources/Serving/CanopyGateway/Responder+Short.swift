internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import HTTPTypes
internal import NIOCore

/// Short requests, which are answered on the event loop.
extension Responder {
  /// The state of a request that was to be carried out on the event loop.
  enum ShortRequest {
    /// A task is to carry it out: it may take long, or waits for something besides one write.
    case needsTask
    /// It is answered.
    case answered(HTTPAnswer)
    /// It has begun a write. The closure returns the response with the reply.
    case writes((Reply) -> HTTPAnswer)
  }

  /// The most bytes of a target, or of a field that is parsed, of a short request.
  private static let shortTextBytes = 1024

  /// Carries out a request, or begins it, if that takes no longer than a short line of the line protocol. A request
  /// for which that is not certain has no effect. Call it on the event loop.
  ///
  /// - Parameters:
  ///   - body: the whole body.
  ///   - completion: called once, on any thread, with the reply to the write that has begun.
  func beginShort(
    _ head: HTTPRequest, _ body: ByteBuffer, completion: @escaping @Sendable (Reply) -> Void
  ) -> ShortRequest {
    let start = measuredNow
    let fields = head.headerFields
    // Long texts take long to parse.
    guard head.path?.utf8.count ?? 0 <= Responder.shortTextBytes,
      fields[.accept]?.utf8.count ?? 0 <= Responder.shortTextBytes,
      fields[.acceptEncoding]?.utf8.count ?? 0 <= Responder.shortTextBytes
    else { return .needsTask }
    guard fields[.upgrade] == nil, fields[.expect] == nil,
      let target = try? Target(head.path ?? ""), target.namespace == nil,
      case .tree(let location)? = try? target.resource()
    else { return .needsTask }
    let method = Responder.method(head, target)
    guard Responder.methods.contains(method) else { return .needsTask }
    let request = Parsed(method: method, target: target, fields: fields, host: head.authority)
    do {
      try refuseForeignPage(request)
      guard let identity = try knownIdentity(request) else { return .needsTask }
      let options = try RequestOptions(target)
      if method == .get {
        guard let answer = try shortRead(request, at: location, options, as: identity) else {
          return .needsTask
        }
        return .answered(completed(answer, of: head, since: start))
      }
      guard
        let answer = try beginShortWrite(
          request, at: location, options, as: identity, body, completion: completion)
      else { return .needsTask }
      return .writes { reply in
        completed(shortAnswer { try answer(reply) }, of: head, since: start)
      }
    } catch {
      return .answered(completed(shortAnswer { throw error }, of: head, since: start))
    }
  }

  /// Returns the response of `body`, or that for its error.
  private func shortAnswer(_ body: () throws -> HTTPAnswer) -> HTTPAnswer {
    do {
      return try body()
    } catch {
      connection.charge(0)
      return .failure(operations.wireError(error))
    }
  }
}
