/// A request to read a post, or to set a leaf of the user.
enum LeafRequest {
  case get(post: Int)
  case set(number: Int)

  /// The path of the leaf of a user.
  static func leaf(_ user: Int) -> String { "bench/leaf\(user)" }
}

/// Sets leaves through the line protocol.
struct LineLeafDialect: Dialect {
  typealias Framer = LineFramer

  func write(_ request: LeafRequest, as user: Int, to output: inout [UInt8]) {
    guard case .set(let number) = request else { return }
    output += "SET /".utf8
    output += LeafRequest.leaf(user).utf8
    output.append(UInt8(ascii: " "))
    output.append(decimal: number)
    output.append(0x0A)
  }

  func check(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, to request: LeafRequest, as user: Int,
    isThorough: Bool
  ) -> Verdict {
    Verdict(bytes.starts(with: "+"))
  }
}

/// Sets leaves through the realtime protocol.
struct WebSocketDialect: Dialect {
  typealias Framer = WebSocketFramer

  func write(_ request: LeafRequest, as user: Int, to output: inout [UInt8]) {
    guard case .set(let number) = request else { return }
    var text: [UInt8] = []
    text.reserveCapacity(96)
    text += #"{"t":"d","d":{"r":"#.utf8
    text.append(decimal: number)
    text += #","a":"p","b":{"p":"/"#.utf8
    text += LeafRequest.leaf(user).utf8
    text += #"","d":"#.utf8
    text.append(decimal: number)
    text += "}}}".utf8
    WebSocketBytes.appendFrame(text, to: &output)
  }

  func check(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, to request: LeafRequest, as user: Int,
    isThorough: Bool
  ) -> Verdict {
    guard case .set(let number) = request else { return .wrong }
    return Verdict(!isThorough || bytes.contains(#"{"r":\#(number),"b":{"s":"ok""#))
  }
}

/// Reads posts and sets leaves by REST.
struct RESTDialect: Dialect {
  typealias Framer = HTTPFramer

  /// The paths of the posts. If there are fewer, they are repeated. Precondition: there is one.
  var paths: [[UInt8]]
  /// Returns a part of the body of the response with a post.
  var content: (_ post: Int) -> String
  /// The number of bytes that a post has at least.
  var bytesMin: Int
  /// The fields of a request that sets a leaf.
  var fields = ""

  func write(_ request: LeafRequest, as user: Int, to output: inout [UInt8]) {
    switch request {
    case .get(let post):
      output += "GET ".utf8
      output += paths[post % paths.count]
      output += " HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8
    case .set(let number):
      output += "PUT /".utf8
      output += LeafRequest.leaf(user).utf8
      output += ".json HTTP/1.1\r\nHost: localhost\r\n".utf8
      output += fields.utf8
      output += "Content-Length: ".utf8
      output.append(decimal: decimalDigits(number))
      output += "\r\n\r\n".utf8
      output.append(decimal: number)
    }
  }

  func check(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, to request: LeafRequest, as user: Int,
    isThorough: Bool
  ) -> Verdict {
    let body = UnsafeRawBufferPointer(rebasing: bytes[frame.contentStart...])
    switch request {
    case .get(let post):
      return Verdict(body.count >= bytesMin && (!isThorough || body.contains(content(post))))
    case .set(let number):
      return Verdict(!isThorough || body.elementsEqual(String(number).utf8))
    }
  }
}
