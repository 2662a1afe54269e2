public import ArgumentParser
import CanopyIdentity
public import CanopySQLite
public import Logging

/// The port for HTTP, or none.
enum HTTPPort: ExpressibleByArgument {
  case off
  case port(UInt16)

  init?(argument: String) {
    if argument == "off" {
      self = .off
    } else if let port = UInt16(argument) {
      self = .port(port)
    } else {
      return nil
    }
  }
}

/// Whether the limits on the writes of a user apply on this machine.
enum LocalWrites: String, ExpressibleByArgument {
  case exempt
  case limited
}

/// The origins of web pages.
struct Origins: ExpressibleByArgument {
  var all: Set<String> = []

  init?(argument: String) {
    for part in argument.split(separator: ",", omittingEmptySubsequences: false) {
      // A browser sends a scheme and a host, and a port unless it is the default.
      guard let mark = part.firstRange(of: "://"), mark.lowerBound > part.startIndex,
        mark.upperBound < part.endIndex, !part[mark.upperBound...].contains("/"),
        !part.contains(" ")
      else { return nil }
      all.insert(String(part))
    }
  }
}

/// The name of a project of Auth clients.
struct Project: ExpressibleByArgument {
  var name = IdentitySettings().project

  init() {}

  init?(argument: String) {
    let isName =
      (1...100).contains(argument.utf8.count)
      && argument.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
          UInt8(ascii: "."):
          true
        default: false
        }
      }
    guard isName else { return nil }
    name = argument
  }
}

extension SQLiteStore.Durability: ExpressibleByArgument {}
extension Logger.Level: @retroactive ExpressibleByArgument {}
