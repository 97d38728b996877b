#include "hub/pip_script.h"

namespace fak::hub {

const char kPipScript[] = R"(
import sys
del sys.path[0]  # the working folder: nothing of it is imported
import json, os, runpy, threading

def watch():
    os.read(0, 1)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()

part = sys.argv.pop(1)
note = part + '.json'

def begun(url):
    try:
        with open(note) as f:
            known = json.load(f)
        if known['url'] == url:
            return os.path.getsize(part), known['etag'], known['bytes']
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return 0, '', 0

def forget():
    for path in (note, part):
        if os.path.exists(path):
            os.remove(path)

class Body:
    # What is kept of a wheel, then the rest, which is kept too.
    def __init__(self, raw, first, total):
        self.raw, self.first, self.total = raw, first, total

    def stream(self, size, **options):
        with open(part, 'r+b', buffering=0) as f:
            f.truncate(self.first)
            for at in range(0, self.first, size):
                yield f.read(min(size, self.first - at))
            for piece in self.raw.stream(size, **options):
                f.write(piece)
                yield piece
            whole = f.tell() == self.total
        if whole:  # it is pip's now, to check and to keep
            forget()

    def __getattr__(self, name):
        return getattr(self.raw, name)

def go_on(adapter):
    send = adapter.send
    def send_on(self, request, *words, **options):
        url = request.url.partition('#')[0].partition('?')[0]
        if request.method != 'GET' or not url.endswith('.whl') or 'Range' in request.headers:
            return send(self, request, *words, **options)
        size, etag, wanted = begun(url)
        first = max(0, size - 1)  # a byte again, so that there is a rest also of a whole one
        if first:
            request.headers['Range'] = 'bytes=%d-' % first
        if first and etag:
            request.headers['If-Range'] = etag
        answer = send(self, request, *words, **options)
        for field in ('Range', 'If-Range'):  # a redirect's next request begins with this one
            request.headers.pop(field, None)
        span, _, total = answer.headers.get('Content-Range', '').partition('/')
        fits = (span.startswith('bytes %d-' % first) and total == str(wanted)
                and etag in ('', answer.headers.get('ETag')))
        if first and answer.status_code == 206 and fits:
            answer.status_code = 200
            answer.headers['Content-Length'] = total
            answer.raw = Body(answer.raw, first, int(total))
            return answer
        if first and answer.status_code in (206, 416):  # the rest of another file
            answer.close()
            forget()
            return send_on(self, request, *words, **options)
        etag = answer.headers.get('ETag', '')
        total = answer.headers.get('Content-Length', '')
        if answer.status_code == 200 and total.isdigit():
            forget()
            open(part, 'wb').close()
            strong = etag if etag.startswith('"') else ''  # only such a one may go into If-Range
            with open(note, 'w') as f:
                json.dump({'url': url, 'etag': strong, 'bytes': int(total)}, f)
            answer.raw = Body(answer.raw, 0, int(total))
        return answer
    adapter.send = send_on

try:
    from pip._vendor.requests.adapters import HTTPAdapter
    go_on(HTTPAdapter)
except ImportError:
    pass  # a pip that is built otherwise begins wheels anew

sys.argv[0] = 'pip'
runpy.run_module('pip', run_name='__main__', alter_sys=True)
)";

}  // namespace fak::hub
