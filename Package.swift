// swift-tools-version: 6.2
import PackageDescription

/// One list of settings for every target, so that no target is built more leniently than another.
let settings: [SwiftSetting] = [
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  // Tests count the nodes that an operation touches; release builds carry no counter.
  .define("CANOPY_COUNT_WORK", .when(configuration: .debug)),
]

let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")

let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")

let package = Package(
  name: "canopy",
  dependencies: [
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
  ],
  targets: [
    .target(name: "CanopyTree", dependencies: [crypto], swiftSettings: settings),
    .target(
      name: "CanopyEngine", dependencies: ["CanopyTree", logging], swiftSettings: settings),
    .target(
      name: "CanopyStore", dependencies: ["CanopyTree", "CanopyEngine", logging, grdb],
      swiftSettings: settings),
    .target(
      name: "CanopySocial", dependencies: ["CanopyTree", "CanopyEngine"], swiftSettings: settings),
    .target(name: "CanopyWire", dependencies: ["CanopyTree"], swiftSettings: settings),
    .testTarget(
      name: "CanopyTreeTests", dependencies: ["CanopyTree"], swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
