internal import CanopyWeb
internal import HTTPTypes
internal import NIOCore

/// A file of the web pages, ready to be sent: plain and compressed, each with its ETag.
///
/// The files never change while the server runs, so each is compressed once.
struct PageFile: Sendable {
  /// The bytes of a response, in one coding.
  struct Coded: Sendable {
    let bytes: ByteBuffer
    let etag: String
  }

  let mediaType: String
  /// The modules that a page loads, for the field `Link`; nil for another file.
  let links: String?
  let plain: Coded
  /// Nil if it would not be shorter.
  let gzip: Coded?

  /// Compresses a file.
  init(_ file: WebFile) {
    mediaType = file.mediaType
    let modules = WebPages.modules(of: file).map { "<\($0.path)>; rel=modulepreload" }
    links = modules.isEmpty ? nil : modules.joined(separator: ", ")
    let bytes = ByteBuffer(bytes: file.bytes)
    plain = Coded(bytes: bytes, etag: "\"\(file.digest)\"")
    let compressed = Gzip(level: 9)?.compress(bytes, isLast: true)
    // A coding is another representation, so it has an ETag of its own.
    gzip = compressed.flatMap { compressed in
      guard compressed.readableBytes < bytes.readableBytes else { return nil }
      return Coded(bytes: compressed, etag: "\"\(file.digest)-gzip\"")
    }
  }

  /// All files by their paths. The first request for a page compresses them, which takes milliseconds.
  static let all = Dictionary(uniqueKeysWithValues: WebPages.all.map { ($0.path, PageFile($0)) })

  /// The policy of the pages: everything comes from the server itself, and markup has neither code nor styles. So a
  /// text that somebody writes can never become a script.
  static let policy = [
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:",
    "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
  ].joined(separator: "; ")

  /// The fields of every response with a file.
  static let fields: HTTPFields = {
    var fields = HTTPFields()
    // The browser keeps the file and asks with its ETag, so that a newer server takes effect at once.
    fields[.cacheControl] = "no-cache"
    fields[.contentSecurityPolicy] = policy
    fields[.xContentTypeOptions] = "nosniff"
    for (name, value) in [
      ("Referrer-Policy", "same-origin"), ("Cross-Origin-Opener-Policy", "same-origin"),
      ("Cross-Origin-Resource-Policy", "same-origin"),
    ] {
      if let name = HTTPField.Name(name) { fields[name] = value }
    }
    return fields
  }()
}
