"""Moto as an S3 endpoint that Amazon's SDK can upload to: ``python s3_server.py PORT``, in an environment with moto.

Python's HTTP server and werkzeug both answer ``Expect: 100-continue``; the SDK takes the second answer as final.
"""

import sys


def main() -> None:
    """Serve; packages of the other environment are imported here, because tests are collected without them."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class OneContinue(WSGIRequestHandler):
        """Answers each expectation once."""

        protocol_version = "HTTP/1.1"

        def handle_expect_100(self) -> bool:
            """Leave the answer to werkzeug."""
            return True

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Print nothing."""

    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", int(sys.argv[1]), application, threaded=True, request_handler=OneContinue)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
