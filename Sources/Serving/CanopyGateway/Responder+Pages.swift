internal import CanopyTree
internal import CanopyWeb
internal import CanopyWire
internal import HTTPTypes
internal import NIOCore

/// The pages for browsers.
extension Responder {
  /// Answers with a file.
  ///
  /// - Throws: `WireError` if the page is that of the blog, and the namespace of the request has none.
  func page(_ file: WebFile, _ request: Parsed) throws(WireError) -> HTTPAnswer {
    let methods: [HTTPRequest.Method] = [.get, .head]
    guard methods.contains(request.method) else { return .methodNotAllowed(methods) }
    if let name = request.target.namespace, WebPages.isOfBlog(request.target.parts),
      !name.hasSameBytes(as: NamespaceName.default.text)
    {
      throw WireError(
        .notFound, "the namespace \(name) has no blog; its data is at /.json?ns=\(name)")
    }
    guard let page = PageFile.all[file.path] else { throw WireError(.notFound, "no such file") }
    let gzip = Responder.acceptsGzip(request.fields) ? page.gzip : nil
    let coded = gzip ?? page.plain
    var answer = HTTPAnswer()
    answer.isForAllOrigins = false
    answer.isCoded = true
    answer.fields = PageFile.fields
    answer.fields[.eTag] = coded.etag
    if let links = page.links, let name = HTTPField.Name("Link") { answer.fields[name] = links }
    if page.gzip != nil { answer.fields[.vary] = "Accept-Encoding" }
    if Responder.matches(request.fields[values: .ifNoneMatch], coded.etag) {
      answer.status = .notModified
      return answer
    }
    answer.fields[.contentType] = page.mediaType
    if gzip != nil { answer.fields[.contentEncoding] = "gzip" }
    answer.fields[.contentLength] = String(coded.bytes.readableBytes)
    answer.body = .bytes(coded.bytes)
    return answer
  }

  /// Returns the page of the blog for an address that does not exist; nil if the client does not show pages.
  ///
  /// The page says that there is nothing at this address, and has a link to the recent posts.
  func pageOfNothing(_ request: Parsed) throws(WireError) -> HTTPAnswer? {
    guard [.get, .head].contains(request.method), Responder.acceptsPages(request.fields),
      let file = WebPages.file(at: [])
    else { return nil }
    var answer = try page(file, request)
    if answer.status == .ok { answer.status = .notFound }
    answer.fields[.vary] = "Accept, Accept-Encoding"
    return answer
  }

  /// Whether a list of ETags, as a client has it from earlier responses, names one.
  private static func matches(_ values: [String], _ etag: String) -> Bool {
    values.lazy.flatMap { $0.utf8.split(separator: UInt8(ascii: ",")) }.contains { part in
      let expected = String(decoding: part, as: UTF8.self).trimmed
      // A proxy that changes the coding marks the ETag as weak.
      return expected.hasSameBytes(as: "*") || expected.hasSameBytes(as: etag)
        || expected.hasSameBytes(as: "W/" + etag)
    }
  }
}
