import CanopyTesting
import Testing

@testable import CanopyTree

/// Each number has one form, however it was written.
struct NumberTests {
  @Test func `a number is the same however it is written`() throws {
    for text in ["1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "100000000e-8"] {
      #expect(try Node(json: text) == 1, "\(text)")
      #expect(try Node(json: text).json() == "1")
    }
    #expect(Node(1.0) == 1)
    #expect(try Node(json: "1.5") != 1)
  }

  @Test func `minus zero is zero`() throws {
    for text in ["-0", "-0.0", "-0e5", "0.0", "-1e-999"] {
      #expect(try Node(json: text) == 0)
      #expect(try Node(json: text).json() == "0")
    }
    #expect(Node(-0.0) == 0)
  }

  @Test(arguments: [
    "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
    "9223372036854775807", "-9223372036854775808", "-9223372036854775807", "1152921504606846977",
  ])
  func `every 64-bit integer survives a round trip`(text: String) throws {
    let node = try Node(json: text)
    #expect(node.integerValue == Int64(text))
    #expect(node.json() == text)
    #expect(try Node(json: node.json(.export)) == node)
  }

  @Test func `a double that is an integer of 64 bits is that integer`() throws {
    for double in [0x1p53 - 1, 0x1p53, -0x1p53, 1e15, -0x1p52 - 2, 1e3, 1e18, -0x1p63] {
      let node = try #require(Node(double))
      let integer = try #require(Int64(exactly: double))
      #expect(node == Node(integer))
      #expect(node.brokenInvariant() == nil)
      #expect(node.json() == "\(integer)")
      #expect(try Node(json: "\(double)") == node)
    }
  }

  @Test func `doubles survive a round trip`() throws {
    try withSeed { random in
      let chosen: [Double] = [
        0x1p63, -0x1p63 - 2048, 0x1p64, 1e21, 1e22, 1e300, .leastNonzeroMagnitude,
        .greatestFiniteMagnitude,
        .leastNormalMagnitude, 0.1, 1.0 / 3, 0x1p53 + 2, 0x1p54 + 4, -0x1p53 - 2, 123_456_789.125,
      ]
      let random = (0..<5000).map { _ in Double(bitPattern: random.next()) }.filter(\.isFinite)
      for double in chosen + random {
        let node = try #require(Node(double))
        try #require(node.doubleValue == double)
        for style in [JSONStyle.plain, .export] {
          let back = try Node(json: node.json(style))
          try #require(back == node, "\(double) is written \(node.json(style))")
        }
        try #require(node.brokenInvariant() == nil)
      }
    }
  }

  @Test func `infinities and NaN are refused`() {
    #expect(Node(Double.nan) == nil)
    #expect(Node(Double.infinity) == nil)
    #expect(Node(-Double.infinity) == nil)
  }

  @Test func `integers and doubles are ordered exactly`() {
    let ascending: [OrderValue] = [
      .double(-.greatestFiniteMagnitude), .double(-0x1p63 - 2048), .integer(.min),
      .integer(.min + 1), .integer(-2), .double(-1.5), .integer(-1), .double(-0.5), .integer(0),
      .double(.leastNonzeroMagnitude), .double(0.5), .integer(1), .double(1.5), .integer(1 << 53),
      .integer(1 << 53 + 1), .double(0x1p53 + 2), .integer(1 << 53 + 3), .integer(.max - 1),
      .integer(.max), .double(0x1p63), .double(1e300),
    ]
    for (i, a) in ascending.enumerated() {
      for (j, b) in ascending.enumerated() {
        #expect((a < b) == (i < j), "\(a) < \(b)")
        #expect((a == b) == (i == j))
      }
    }
    #expect(OrderValue.integer(1 << 60) == .double(0x1p60))
  }
}

struct DecimalTests {
  private func text(_ number: Int64) -> String {
    withUnsafeTemporaryAllocation(byteCount: Decimal.bytesMax, alignment: 1) { bytes in
      let count = Decimal.write(number, into: bytes)
      return String(decoding: bytes[..<count], as: UTF8.self)
    }
  }

  @Test func `integers are written as Swift writes them`() {
    var numbers: [Int64] = [.min, .min + 1, .max, .max - 1, 0]
    var power: Int64 = 1
    for _ in 0..<19 {
      numbers += [power, power - 1, power + 1, -power, 1 - power, -1 - power]
      (power, _) = power.multipliedReportingOverflow(by: 10)
    }
    for number in numbers { #expect(text(number) == "\(number)") }
  }
}
