import Foundation

/// A drawing of lines, as SVG. Colours suit light and dark pages.
struct Chart {
  struct Point {
    var x: Double
    var y: Double
  }

  struct Line {
    var name: String
    var points: [Point]
  }

  var title: String
  var xTitle: String
  var yTitle: String
  /// Whether both axes are logarithmic. Points at or below zero are then left out.
  var isLogarithmic: Bool
  var lines: [Line] = []

  private static let width = 720.0
  private static let height = 400.0
  private static let left = 76.0
  private static let right = 20.0
  private static let top = 36.0
  private static let bottom = 84.0
  private static let colours = ["#2f9e44", "#e8590c", "#1c7ed6", "#9c36b5", "#868e96", "#c2255c"]

  /// The drawing as a text of SVG.
  var svg: String {
    let drawn = lines.map { Line(name: $0.name, points: $0.points.filter(isDrawable)) }
    let points = drawn.flatMap(\.points)
    guard !points.isEmpty else { return Self.head(title) + "</svg>\n" }
    let x = Axis(points.map(\.x), isLogarithmic: isLogarithmic)
    let y = Axis(points.map(\.y), isLogarithmic: isLogarithmic, startsAtZero: !isLogarithmic)
    func place(_ point: Point) -> (x: Double, y: Double) {
      (
        Self.left + x.share(of: point.x) * (Self.width - Self.left - Self.right),
        Self.height - Self.bottom
          - y.share(of: point.y) * (Self.height - Self.top - Self.bottom)
      )
    }
    var text = Self.head(title)
    for mark in x.marks {
      let at = place(Point(x: mark, y: y.least)).x
      text += Self.grid(at, Self.top, at, Self.height - Self.bottom)
      text += Self.label(shortText(mark), at, Self.height - Self.bottom + 18, "middle")
    }
    for mark in y.marks {
      let at = place(Point(x: x.least, y: mark)).y
      text += Self.grid(Self.left, at, Self.width - Self.right, at)
      text += Self.label(shortText(mark), Self.left - 8, at + 4, "end")
    }
    text += Self.label(xTitle, Self.width / 2, Self.height - Self.bottom + 38, "middle")
    text += Self.label(yTitle, Self.left, Self.top - 8, "start")
    for (number, line) in drawn.enumerated() {
      let colour = Self.colours[number % Self.colours.count]
      let corners = line.points.map { point in
        let at = place(point)
        return "\(Self.number(at.x)),\(Self.number(at.y))"
      }
      text += "<polyline fill=\"none\" stroke=\"\(colour)\" stroke-width=\"2\" points=\""
      text += corners.joined(separator: " ") + "\"/>\n"
      let column = Double(number % 3)
      let row = Double(number / 3)
      let legendX = Self.left + column * 215
      let legendY = Self.height - 26 + row * 16
      text += "<rect x=\"\(Self.number(legendX))\" y=\"\(Self.number(legendY - 9))\" width=\"12\" "
      text += "height=\"10\" fill=\"\(colour)\"/>\n"
      text += Self.label(line.name, legendX + 18, legendY, "start")
    }
    return text + "</svg>\n"
  }

  private func isDrawable(_ point: Point) -> Bool {
    point.x.isFinite && point.y.isFinite && (!isLogarithmic || point.x > 0 && point.y > 0)
  }

  private static func head(_ title: String) -> String {
    """
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(number(width)) \(number(height))" \
    role="img" font-family="sans-serif" font-size="12" fill="#868e96">
    <title>\(escaped(title))</title>

    """
  }

  private static func grid(_ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double) -> String {
    "<line x1=\"\(number(x1))\" y1=\"\(number(y1))\" x2=\"\(number(x2))\" y2=\"\(number(y2))\" "
      + "stroke=\"#868e96\" stroke-opacity=\"0.3\"/>\n"
  }

  private static func label(_ text: String, _ x: Double, _ y: Double, _ anchor: String) -> String {
    "<text x=\"\(number(x))\" y=\"\(number(y))\" text-anchor=\"\(anchor)\">\(escaped(text))</text>\n"
  }

  private static func number(_ number: Double) -> String { String(format: "%.1f", number) }

  private static func escaped(_ text: String) -> String {
    text.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
  }
}

/// The range of an axis, and its marks.
private struct Axis {
  let least: Double
  let greatest: Double
  let isLogarithmic: Bool

  init(_ values: [Double], isLogarithmic: Bool, startsAtZero: Bool = false) {
    let low = values.min() ?? 0
    let high = values.max() ?? 1
    self.isLogarithmic = isLogarithmic
    if isLogarithmic {
      least = pow(10, floor(log10(low) + 1e-9))
      greatest = max(pow(10, ceil(log10(high) - 1e-9)), least * 10)
    } else {
      least = startsAtZero ? min(0, low) : low
      greatest = high > least ? high : least + 1
    }
  }

  /// The position of a value: 0 at the start of the axis, 1 at its end.
  func share(of value: Double) -> Double {
    isLogarithmic
      ? log10(value / least) / log10(greatest / least) : (value - least) / (greatest - least)
  }

  var marks: [Double] {
    guard !isLogarithmic else {
      let decades = Int(log10(greatest / least).rounded())
      return (0...max(decades, 0)).map { least * pow(10, Double($0)) }
    }
    let rough = (greatest - least) / 5
    let decade = pow(10, floor(log10(rough)))
    let step = [1, 2, 5, 10].map { $0 * decade }.first { $0 >= rough } ?? rough
    return Array(stride(from: (least / step).rounded(.up) * step, through: greatest, by: step))
  }
}
