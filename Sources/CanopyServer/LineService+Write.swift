internal import CanopyEngine
internal import CanopySocial
internal import CanopyTree
internal import CanopyWire

extension LineService {
  /// Submits a write; `answer` is called once, on some thread, when it is durable or refused.
  func write(
    _ request: Request, as identity: Identity, answer: @escaping @Sendable (Response) -> Void
  ) {
    do {
      try submit(request, as: identity, answer: answer)
    } catch {
      answer(Response(wireError(error)))
    }
  }

  private func submit(
    _ request: Request, as identity: Identity, answer: @escaping @Sendable (Response) -> Void
  ) throws {
    switch request {
    case .post(let title, let body):
      let transaction = try Posts.create(by: caller(identity), title: title, body: body)
      submit(transaction, answer) { $0.append(id: $1.result) }
    case .edit(let id, let title, let body):
      submit(try Posts.edit(id, by: caller(identity), title: title, body: body), answer)
    case .delete(let id):
      submit(Posts.delete(id, by: try caller(identity)), answer)
    case .star(let id):
      submit(Posts.toggleStar(id, by: try caller(identity)), answer) { output, star in
        output.append("{\"starred\":")
        output.append(Node(star.result.isStarred))
        output.append(",\"starCount\":")
        output.append(star.result.starCount)
        output.append("}")
      }
    case .comment(let id, let text):
      let transaction = try Comments.create(on: id, by: caller(identity), text: text)
      submit(transaction, answer) { $0.append(id: $1.result) }
    case .uncomment(let id, let comment):
      submit(Comments.delete(comment, on: id, by: try caller(identity)), answer)
    case .rename(let username):
      submit(try Users.rename(caller(identity), to: username), answer)
    case .once(let origin, let request):
      try submitTree(request, as: identity, once: origin, answer)
    default:
      try submitTree(request, as: identity, answer)
    }
  }

  /// Submits a transaction whose success is told as null.
  private func submit(
    _ transaction: @escaping Transaction<Void>, _ answer: @escaping @Sendable (Response) -> Void
  ) {
    submit(transaction, answer) { output, _ in output.append("null") }
  }

  /// Submits a transaction whose success is told by `tell`.
  ///
  /// - Parameters:
  ///   - origin: which write of which client it is.
  ///   - repeated: tells of one that was made before, given the number of its commit.
  func submit<Result: Sendable>(
    _ transaction: @escaping Transaction<Result>, once origin: WriteOrigin? = nil,
    _ answer: @escaping @Sendable (Response) -> Void,
    repeated: @escaping @Sendable (inout JSONOutput, Int64) -> Void = { $0.append($1) },
    tell: @escaping @Sendable (inout JSONOutput, Committed<Result>) -> Void
  ) {
    engine.submit(transaction, once: origin) { result in
      switch result {
      case .success(let committed): answer(Response { tell(&$0, committed) })
      case .failure(let earlier as RepeatedWrite):
        answer(Response { repeated(&$0, earlier.sequence) })
      case .failure(let error): answer(Response(self.wireError(error)))
      }
    }
  }
}

extension JSONOutput {
  fileprivate mutating func append(id: Key) {
    append("{\"id\":")
    append(key: id)
    append("}")
  }
}
