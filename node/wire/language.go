package wire

// Version is the protocol version Lockstep speaks: V5_3_3. Peers read features
// out of it: routes in standard JSON, heartbeats version 2 (wire contracts 1.5).
const Version int32 = 479

// Versions at which a peer's behaviour changes.
const (
	VersionMaxReconsume int32 = 121 // V3_4_9: from here the client's own maxReconsumeTimes counts
	VersionGoClient     int32 = 317 // V4_5_2: what RocketMQ's Go client sends
	VersionJSONRoute    int32 = 401 // V4_9_4: from here routes are written in standard JSON
	VersionGoAway       int32 = 475 // V5_3_1: clients above it understand CodeGoAway
)

// Language names of the header field "language".
const (
	LanguageJava  = "JAVA"
	LanguageGo    = "GO"
	LanguageOther = "OTHER"
)

// languages lists the names by their number in the binary header.
var languages = [...]string{
	"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
	"OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
}

// otherLanguage is the number of OTHER, for names without a number.
const otherLanguage = 7

// languageNumber is the binary header's number of a name; unknown names, which
// are harmless, become OTHER.
func languageNumber(name string) uint8 {
	for i, l := range languages {
		if l == name {
			return uint8(i)
		}
	}
	return otherLanguage
}

// languageName is the name of a number; unknown numbers become OTHER.
func languageName(n uint8) string {
	if int(n) < len(languages) {
		return languages[n]
	}
	return languages[otherLanguage]
}
