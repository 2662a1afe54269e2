import CanopyWire
import Testing

@Suite struct ForeignProtocolTests {
  private func recognised(_ bytes: [UInt8]) -> ForeignProtocol? {
    bytes.withUnsafeBytes { ForeignProtocol(line: $0) }
  }

  @Test(arguments: [
    "GET / HTTP/1.1", "POST / HTTP/1.1", "POST /a?b=c HTTP/1.0", "PUT /x HTTP/2", "PRI * HTTP/2.0",
    "OPTIONS * HTTP/1.1", "GET http://127.0.0.1:7070/ HTTP/1.1", "CONNECT example.org:443 HTTP/1.1",
    "post /a b HTTP/1.1", "Host: localhost", "host:x", "HOST: 127.0.0.1:7070",
  ])
  func `a request line and a Host line are HTTP`(_ line: String) {
    #expect(recognised(Array(line.utf8)) == .http)
  }

  @Test(arguments: [
    "", "H", "PING", "HELLO", "HELP HOST", "Hostess: x", "hos", "POST title body", "STAR 1", "1",
    "POST Protocols HTTP/1.1", "COMMENT -Oabc HTTP/1.1", "POST /title \"HTTP/1.1\"",
    "POST / HTTP/1.x", "POST / HTTP/", "POST / HTTPS/1.1", "POST / http/1.1", "/ HTTP/1.1",
    "HTTP/1.1", " HTTP/1.1", "SET /a 1", "SET /posts/1 100000.1", "POST /x y HTTP/1.15",
    "Accept: */*",
  ])
  func `a request of the line protocol is not HTTP`(_ line: String) {
    #expect(recognised(Array(line.utf8)) == nil)
  }

  @Test func `a TLS handshake is recognised by its first two bytes`() {
    #expect(recognised([0x16, 0x03]) == .tls)
    #expect(recognised([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03]) == .tls)
    #expect(recognised([0x16]) == nil)
    #expect(recognised([0x16, 0x02]) == nil)
    #expect(recognised([0x03, 0x16]) == nil)
  }

  @Test func `each is answered by one line`() {
    for error in [ForeignProtocol.http.error, ForeignProtocol.tls.error] {
      #expect(error.code == .badRequest && error.sentence.hasSuffix("the connection closes"))
    }
  }
}
