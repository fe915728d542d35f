"""Names of the course: predictions, exercises, pictures."""

from kstreamnb.course.datasets import atlantic_storms as atlantic_storms
from kstreamnb.course.datasets import new_york_flights as new_york_flights
from kstreamnb.course.datasets import temperature_topics as temperature_topics
from kstreamnb.course.exercises import check as check
from kstreamnb.course.exercises import hint as hint
from kstreamnb.course.exercises import solution as solution
from kstreamnb.course.pictures import picture as picture
from kstreamnb.course.predictions import compare as compare
from kstreamnb.course.predictions import predict as predict
