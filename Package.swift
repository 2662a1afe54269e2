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

/// The samples are compiled as an application's code is: without the features that this package asks more of
/// itself with.
let applicationSettings: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")

let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")
let nioExtras = Target.Dependency.product(name: "NIOExtras", package: "swift-nio-extras")
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")
let lifecycle = Target.Dependency.product(
  name: "ServiceLifecycle", package: "swift-service-lifecycle")
let signals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")
let argumentParser = Target.Dependency.product(
  name: "ArgumentParser", package: "swift-argument-parser")
let histogram = Target.Dependency.product(name: "Histogram", package: "hdrhistogram-swift")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let sqlite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift")

let package = Package(
  name: "canopy",
  products: [
    // For applications; all else is used from within.
    .library(name: "CanopyClient", targets: ["CanopyClient"]),
    .executable(name: "canopy-blog", targets: ["CanopyBlogSample"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
  ],
  targets: [
    .systemLibrary(name: "CArgon2", providers: [.apt(["libargon2-dev"])]),
    .systemLibrary(name: "CEpoll"),
    .target(name: "CanopySystem", swiftSettings: settings),
    .target(name: "CanopyTree", dependencies: [crypto], swiftSettings: settings),
    .target(name: "CanopyRules", dependencies: ["CanopyTree"], swiftSettings: settings),
    .target(
      name: "CanopyEngine", dependencies: ["CanopySystem", "CanopyTree", deque, logging],
      swiftSettings: settings),
    .target(
      name: "CanopyStore",
      dependencies: ["CanopyTree", "CanopyEngine", "CanopyAccounts", logging, grdb, sqlite],
      swiftSettings: settings),
    .target(
      name: "CanopyAccounts", dependencies: ["CanopySystem", "CArgon2", crypto],
      swiftSettings: settings),
    .target(
      name: "CanopySocial", dependencies: ["CanopyTree", "CanopyEngine"], swiftSettings: settings),
    .target(name: "CanopyWire", dependencies: ["CanopyTree"], swiftSettings: settings),
    .target(
      name: "CanopyClient",
      dependencies: [
        "CanopyTree", "CanopyWire", logging, deque, nioCore, nioPosix, nioSSL, grdb,
      ],
      swiftSettings: settings),
    .target(
      name: "CanopySession",
      dependencies: [
        "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyAccounts", "CanopySocial", "CanopyWire",
        logging, deque,
      ],
      swiftSettings: settings),
    .target(
      name: "CanopyServer",
      dependencies: [
        "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyAccounts", "CanopySocial", "CanopyWire",
        "CanopySession", logging, deque, nioCore, nioPosix, nioExtras, lifecycle,
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "canopy",
      dependencies: [
        "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyStore", "CanopyAccounts",
        "CanopySocial", "CanopySession", "CanopyServer", logging, lifecycle, signals,
        argumentParser, nioCore, nioPosix,
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "CanopyBench",
      dependencies: [
        "CEpoll", "CanopyTree", "CanopyClient", argumentParser, histogram, nioCore, nioPosix,
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "CanopyBlogSample", dependencies: ["CanopyClient"], swiftSettings: settings),
    .executableTarget(
      name: "CanopyClientBench",
      dependencies: [
        "CanopyClient", "CanopyTree", argumentParser, logging, nioCore, nioPosix,
      ],
      swiftSettings: settings),
    .target(
      name: "CanopyTesting",
      dependencies: [
        "CanopyTree", "CanopyEngine", "CanopyAccounts", "CanopySocial", "CanopySession",
        "CanopyServer", logging, lifecycle, nioCore, nioPosix,
      ],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyEngineTests",
      dependencies: ["CanopyTree", "CanopyEngine", "CanopyTesting"], swiftSettings: settings),
    .testTarget(
      name: "CanopyStoreTests",
      dependencies: [
        "CanopyTree", "CanopyEngine", "CanopyStore", "CanopyAccounts", "CanopySocial",
        "CanopyTesting", logging, grdb,
      ],
      swiftSettings: settings),
    .testTarget(
      name: "CanopySocialTests",
      dependencies: ["CanopyTree", "CanopyEngine", "CanopyStore", "CanopySocial", "CanopyTesting"],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyWireTests", dependencies: ["CanopyWire", "CanopyTree", "CanopyTesting"],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyClientTests",
      dependencies: [
        "CanopyClient", "CanopyClientBench", "CanopyTree", "CanopyWire", "CanopyEngine",
        "CanopyAccounts", "CanopyServer",
        "CanopyTesting", logging,
        lifecycle, nioCore, nioPosix, nioSSL,
      ],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyClientSampleTests",
      dependencies: [
        "CanopyClient", "CanopyEngine", "CanopySocial", "CanopyTesting", "CanopyTree",
      ],
      swiftSettings: applicationSettings),
    // Runs the built command; depending on it has it built.
    .testTarget(
      name: "CanopyRepositoryTests", dependencies: ["canopy"], swiftSettings: settings),
    .testTarget(
      name: "CanopySessionTests",
      dependencies: ["CanopySession", "CanopyTree", "CanopyWire", "CanopyEngine", "CanopyTesting"],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyServerTests",
      dependencies: [
        "CanopyServer", "CanopySession", "CanopyTree", "CanopyRules", "CanopyEngine",
        "CanopyAccounts",
        "CanopySocial", "CanopyWire", "CanopyTesting", logging, lifecycle, nioCore, nioEmbedded,
        nioExtras,
      ],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyEndToEndTests", dependencies: ["canopy", "CanopyTree", "CanopyTesting"],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyBenchTests", dependencies: ["CanopyBench", "CanopyTree"],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyTreeTests", dependencies: ["CanopyTree", "CanopyTesting"],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyRulesTests",
      dependencies: ["CanopyRules", "CanopyTree", "CanopySocial", "CanopyTesting"],
      exclude: ["BuiltInCases.json"],
      swiftSettings: settings),
    .testTarget(
      name: "CanopyAccountsTests", dependencies: ["CanopyAccounts", "CanopyTesting", "CArgon2"],
      swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
