package report

import (
	"embed"
	"html/template"
	"io"
	"reflect"
)

//go:embed templates
var files embed.FS

var tmpl = template.Must(template.New("page.html.tmpl").Funcs(template.FuncMap{
	"count":    count,
	"moment":   moment,
	"sentence": sentence,
	"plural":   func(list any, noun string) string { return plural(int64(reflect.ValueOf(list).Len()), noun) },
	"stage":    func(i int) string { return stageNames[i].Name },
}).ParseFS(files, "templates/*.tmpl", "templates/style.css"))

// Render writes d as one HTML file that asks nothing of any server. It writes
// only once the whole page was made, so an error leaves w without half a page.
func Render(w io.Writer, d Data) error {
	return draw(w, "page.html.tmpl", newPage(d))
}
