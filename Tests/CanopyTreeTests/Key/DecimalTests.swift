import Testing

@testable import CanopyTree

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
