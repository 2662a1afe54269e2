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

let package = Package(
  name: "canopy",
  dependencies: [
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2")
  ],
  targets: [
    .target(name: "CanopyTree", dependencies: [crypto], swiftSettings: settings),
    .testTarget(
      name: "CanopyTreeTests", dependencies: ["CanopyTree"], swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
