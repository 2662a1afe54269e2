// Code that is written for the original has Foundation with the library: `NSDictionary`, `IndexPath` and
// `localizedDescription` stand in it without an import of their own.
@_exported public import Foundation
