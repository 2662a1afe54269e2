import Testing

@testable import CanopyBench

struct GrowthTests {
  private func slope(_ values: [(Int, Double)]) -> Double? {
    GrowthReport.Curve(
      chart: .memory, name: "",
      points: values.map { GrowthReport.Curve.Point(size: $0.0, value: $0.1) }
    ).slope
  }

  @Test func `a slope is that of the logarithms, and needs two sizes`() throws {
    #expect(slope([(10, 3)]) == nil)
    #expect(slope([(10, 3), (10, 4)]) == nil)
    #expect(abs(try #require(slope([(10, 3), (100, 3), (1_000, 3)]))) < 1e-9)
    #expect(abs(try #require(slope([(10, 3), (100, 30), (1_000, 300)])) - 1) < 1e-9)
  }

  @Test func `a table has a column for each size, and a dash where a curve has no value`() {
    var report = GrowthReport(setting: ["a machine"])
    report.add(2, at: 10, to: "Canopy", in: .events)
    report.add(20, at: 100, to: "Canopy", in: .events)
    report.add(4, at: 100, to: "NATS", in: .events)
    #expect(
      report.markdown == """
        - a machine

        Events to the listeners of one location, events a second, by listeners:

        | | 10 | 100 | Slope |
        |---|---:|---:|---:|
        | Canopy | 2.00 | 20.0 | 1.00 |
        | NATS | – | 4.00 | – |

        """)
    #expect(report.charts.map(\.name) == ["growth-events"])
  }

  @Test
  func `a drawing has a line for each curve, escapes names, and leaves out what it cannot place`() {
    var chart = Chart(title: "a < b", xTitle: "x", yTitle: "y", isLogarithmic: true)
    #expect(chart.svg.hasSuffix("<title>a &lt; b</title>\n</svg>\n"))
    chart.lines = [
      Chart.Line(
        name: "A & B", points: [.init(x: 1, y: 1), .init(x: 10, y: 0), .init(x: 100, y: 10)])
    ]
    #expect(chart.svg.contains("A &amp; B"))
    // The corners of the drawing, without the point of the value zero.
    #expect(chart.svg.contains("points=\"76.0,316.0 700.0,36.0\""))
  }

  @Test func `the framer of NATS adds the lines of the server to what follows`() throws {
    let text = "INFO {\"port\":1}\r\nPING\r\nMSG fan-out 1 5\r\nab\ncd\r\nPONG\r\n-ERR 'no'\r\n"
    var bytes = Array(text.utf8)[...]
    var frames: [String] = []
    var framer = NATSFramer()
    // Each frame is found as soon as it is complete.
    var end = bytes.startIndex
    var errors = 0
    while end < bytes.endIndex {
      end += 1
      let part = Array(bytes[bytes.startIndex..<end])
      guard let frame = try part.withUnsafeBytes({ try framer.next(in: $0) }) else { continue }
      frames.append(String(decoding: part[frame.contentStart..<frame.count], as: UTF8.self))
      if frame.isError { errors += 1 }
      bytes = bytes[(bytes.startIndex + frame.count)...]
      end = bytes.startIndex
    }
    #expect(frames == ["MSG fan-out 1 5\r\nab\ncd\r\n", "PONG\r\n", "-ERR 'no'\r\n"])
    #expect(errors == 1)
  }
}
