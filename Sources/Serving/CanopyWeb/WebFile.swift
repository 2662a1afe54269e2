internal import Crypto

/// A file of the web pages, as a browser gets it.
public struct WebFile: Sendable, Equatable {
  /// The path at which it is served, such as `/shared/line.js`.
  public let path: String
  /// The bytes.
  public let bytes: [UInt8]
  /// The media type, for the field `Content-Type`.
  public let mediaType: String
  /// Digits that differ for other bytes.
  public let digest: String

  /// Creates a file.
  ///
  /// - Precondition: the path ends in one of the known extensions.
  init(_ path: String, _ bytes: [UInt8]) {
    guard let mediaType = WebFile.mediaType(of: path) else {
      preconditionFailure("\(path) has an extension without a media type")
    }
    self.path = path
    self.bytes = bytes
    self.mediaType = mediaType
    digest = SHA256.hash(data: bytes).prefix(12).map { byte in
      String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
    }.joined()
  }

  /// Returns the media type for the extension of a path; nil for an unknown one.
  private static func mediaType(of path: String) -> String? {
    switch path.utf8.split(separator: UInt8(ascii: ".")).last.map(String.init) {
    case "html": "text/html; charset=utf-8"
    case "js": "text/javascript; charset=utf-8"
    case "css": "text/css; charset=utf-8"
    case "svg": "image/svg+xml"
    case "png": "image/png"
    default: nil
    }
  }
}
